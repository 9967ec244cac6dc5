//! The calls of a provider.

use super::{
    Protocol, Status,
    message::{
        Applied, Apply, ClientCapabilities, Configure, DataAnswer, Diagnostics, DynamicValue, Empty,
        IdentitySchemas, Import, ImportAnswer, List, Listed, Plan, Planned, Read, ReadAnswer, ReadData,
        Schema, Schemas, Upgrade, UpgradeIdentity, Upgraded, UpgradedIdentity, Validate, ValidateProvider,
        ValidatedProvider, v5,
    },
    version,
};
use prost::Message;
use prost::bytes::{Buf, BufMut, Bytes};
use reconciled_grpc::Channel;
use tokio::io::{AsyncRead, AsyncWrite};

/// What is said of us: providers refuse what looks older than they need.
const TERRAFORM_VERSION: &str = "1.13.0";

/// Room for what is on its way: schemas have tens of megabytes.
const WINDOW: u32 = 4 << 20;
/// An answer that is larger is no answer: no state comes near it.
const LARGEST: usize = 64 << 20;
/// The same of schemas: the largest known are a tenth of it.
const LARGEST_SCHEMAS: usize = 512 << 20;

const CAPABILITIES: ClientCapabilities =
    ClientCapabilities { deferral_allowed: false, write_only_attributes_allowed: true };

/// Speaks to a provider, who has no name at its end.
pub(super) async fn channel(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Channel, Status> {
    Channel::over(io, "localhost", WINDOW).await
}

/// The calls of one provider's process.
#[derive(Clone)]
pub struct Calls {
    channel: Channel,
    protocol: Protocol,
}

impl Calls {
    pub(super) fn new(channel: Channel, protocol: Protocol) -> Calls {
        Calls { channel, protocol }
    }

    /// Becomes true once the connection has ended.
    pub(super) fn ended(&self) -> tokio::sync::watch::Receiver<bool> {
        self.channel.ended()
    }

    /// What it speaks.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    async fn call<A: Message + Default>(
        &self,
        method: version::Method,
        message: &impl Message,
    ) -> Result<A, Status> {
        self.channel.call(&self.protocol.path(method), message, LARGEST).await
    }

    /// The schemas; the provider's own is in the form of protocol 6 whatever it speaks.
    pub async fn schemas(&self) -> Result<Bytes, Status> {
        let path = self.protocol.path(version::SCHEMA);
        let raw: Raw = self.channel.call(&path, &Empty {}, LARGEST_SCHEMAS).await?;
        Ok(raw.0)
    }

    /// Asks whether a configuration is valid, and gives it to the provider.
    pub async fn validate_provider(&self, config: DynamicValue) -> Result<ValidatedProvider, Status> {
        self.call(version::VALIDATE_PROVIDER, &ValidateProvider { config: Some(config) }).await
    }

    /// Gives the provider its configuration.
    pub async fn configure(&self, config: DynamicValue) -> Result<Diagnostics, Status> {
        let message = Configure {
            terraform_version: TERRAFORM_VERSION.into(),
            config: Some(config),
            capabilities: Some(CAPABILITIES),
        };
        self.call(version::CONFIGURE, &message).await
    }

    /// Asks whether the configuration of a resource is valid.
    pub async fn validate(&self, type_name: &str, config: DynamicValue) -> Result<Diagnostics, Status> {
        let message =
            Validate { type_name: type_name.into(), config: Some(config), capabilities: Some(CAPABILITIES) };
        self.call(version::VALIDATE, &message).await
    }

    /// Brings kept state into today's form.
    pub async fn upgrade(&self, message: Upgrade) -> Result<Upgraded, Status> {
        self.call(version::UPGRADE, &message).await
    }

    /// Reads a resource.
    pub async fn read(&self, message: Read) -> Result<ReadAnswer, Status> {
        self.call(version::READ, &Read { capabilities: Some(CAPABILITIES), ..message }).await
    }

    /// Asks whether the configuration of a data source is valid.
    pub async fn validate_data(&self, type_name: &str, config: DynamicValue) -> Result<Diagnostics, Status> {
        let message = Validate { type_name: type_name.into(), config: Some(config), capabilities: None };
        self.call(version::VALIDATE_DATA, &message).await
    }

    /// Reads a data source.
    pub async fn read_data(&self, message: ReadData) -> Result<DataAnswer, Status> {
        self.call(version::READ_DATA, &ReadData { capabilities: Some(CAPABILITIES), ..message }).await
    }

    /// Plans a change.
    pub async fn plan(&self, message: Plan) -> Result<Planned, Status> {
        self.call(version::PLAN, &Plan { capabilities: Some(CAPABILITIES), ..message }).await
    }

    /// Carries out a change.
    pub async fn apply(&self, message: Apply) -> Result<Applied, Status> {
        self.call(version::APPLY, &message).await
    }

    /// Finds a resource by its id or identity.
    pub async fn import(&self, message: Import) -> Result<ImportAnswer, Status> {
        self.call(version::IMPORT, &Import { capabilities: Some(CAPABILITIES), ..message }).await
    }

    /// Asks whether the configuration of a list is valid.
    pub async fn validate_list(&self, type_name: &str, config: DynamicValue) -> Result<Diagnostics, Status> {
        let message = Validate { type_name: type_name.into(), config: Some(config), capabilities: None };
        self.call(version::VALIDATE_LIST, &message).await
    }

    /// Lists the resources of a type.
    pub async fn list(&self, message: List) -> Result<Vec<Listed>, Status> {
        self.channel.call_all(&self.protocol.path(version::LIST), &message, LARGEST).await
    }

    /// What identifies resources.
    pub async fn identity_schemas(&self) -> Result<IdentitySchemas, Status> {
        self.call(version::IDENTITIES, &Empty {}).await
    }

    /// Brings a kept identity into today's form.
    pub async fn upgrade_identity(&self, message: UpgradeIdentity) -> Result<UpgradedIdentity, Status> {
        self.call(version::UPGRADE_IDENTITY, &message).await
    }

    /// Asks what is under way to come to an end.
    pub async fn cancel(&self) {
        let _: Result<Empty, Status> = self.call(version::STOP, &Empty {}).await;
    }

    /// Asks the process to end; it may do so before it answers.
    pub(super) async fn shutdown(&self) {
        let _: Result<Empty, Status> =
            self.channel.call("/plugin.GRPCController/Shutdown", &Empty {}, LARGEST).await;
    }
}

/// A message left as it came.
#[derive(Clone, Debug, Default, PartialEq)]
struct Raw(Bytes);

impl Message for Raw {
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        buffer.put_slice(&self.0);
    }
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: prost::encoding::WireType,
        buffer: &mut impl Buf,
        cx: prost::encoding::DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        prost::encoding::skip_field(wire_type, tag, buffer, cx)
    }
    fn encoded_len(&self) -> usize {
        self.0.len()
    }
    fn clear(&mut self) {
        self.0 = Bytes::new();
    }
    fn decode(mut buffer: impl Buf) -> Result<Raw, prost::DecodeError> {
        Ok(Raw(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// Reads an answer to [`Calls::schemas`].
pub fn schemas(bytes: Bytes, protocol: Protocol) -> Result<Schemas, prost::DecodeError> {
    #[derive(Clone, PartialEq, Message)]
    struct Own {
        #[prost(message, optional, tag = "1")]
        provider: Option<v5::Schema>,
        #[prost(message, optional, tag = "5")]
        provider_meta: Option<v5::Schema>,
    }
    // The provider's own schema of protocol 5 is read by itself, since `Attribute` has other tags there.
    match protocol {
        Protocol::V6 => Schemas::decode(bytes),
        Protocol::V5 => {
            let own = Own::decode(bytes.clone())?;
            let others = Others::decode(bytes)?;
            Ok(Schemas {
                provider: own.provider.map(Into::into),
                provider_meta: own.provider_meta.map(Into::into),
                resources: others.resources,
                data_sources: others.data_sources,
                diagnostics: others.diagnostics,
                capabilities: others.capabilities,
                list_resources: others.list_resources,
            })
        }
    }
}

/// [`Schemas`] without what is read by itself.
#[derive(Clone, PartialEq, Message)]
struct Others {
    #[prost(map = "string, bytes", tag = "2")]
    resources: std::collections::HashMap<String, Vec<u8>>,
    #[prost(map = "string, bytes", tag = "3")]
    data_sources: std::collections::HashMap<String, Vec<u8>>,
    #[prost(message, repeated, tag = "4")]
    diagnostics: Vec<super::message::Diagnostic>,
    #[prost(message, optional, tag = "6")]
    capabilities: Option<super::message::ServerCapabilities>,
    #[prost(map = "string, bytes", tag = "9")]
    list_resources: std::collections::HashMap<String, Vec<u8>>,
}

/// Reads the schema of one type.
pub fn schema(bytes: &[u8], protocol: Protocol) -> Result<Schema, prost::DecodeError> {
    match protocol {
        Protocol::V6 => Schema::decode(bytes),
        Protocol::V5 => v5::Schema::decode(bytes).map(Into::into),
    }
}
