//! The two versions of the plugin protocol, which differ in names.

/// A version of the plugin protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Most providers.
    V5,
    /// Providers made with the newer SDKs alone.
    V6,
}

/// What a call is called in either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Method {
    v5: &'static str,
    v6: &'static str,
}

macro_rules! methods {
    ($($name:ident: $v5:literal, $v6:literal;)*) => { $(
        pub(super) const $name: Method = Method { v5: $v5, v6: $v6 };
    )* };
}

methods! {
    SCHEMA: "GetSchema", "GetProviderSchema";
    VALIDATE_PROVIDER: "PrepareProviderConfig", "ValidateProviderConfig";
    CONFIGURE: "Configure", "ConfigureProvider";
    VALIDATE: "ValidateResourceTypeConfig", "ValidateResourceConfig";
    UPGRADE: "UpgradeResourceState", "UpgradeResourceState";
    READ: "ReadResource", "ReadResource";
    PLAN: "PlanResourceChange", "PlanResourceChange";
    APPLY: "ApplyResourceChange", "ApplyResourceChange";
    IMPORT: "ImportResourceState", "ImportResourceState";
    VALIDATE_DATA: "ValidateDataSourceConfig", "ValidateDataResourceConfig";
    READ_DATA: "ReadDataSource", "ReadDataSource";
    IDENTITIES: "GetResourceIdentitySchemas", "GetResourceIdentitySchemas";
    UPGRADE_IDENTITY: "UpgradeResourceIdentity", "UpgradeResourceIdentity";
    VALIDATE_LIST: "ValidateListResourceConfig", "ValidateListResourceConfig";
    LIST: "ListResource", "ListResource";
    STOP: "Stop", "StopProvider";
}

impl Protocol {
    /// The version with this number.
    pub fn of(number: u32) -> Option<Protocol> {
        match number {
            5 => Some(Protocol::V5),
            6 => Some(Protocol::V6),
            _ => None,
        }
    }
    /// The HTTP path of a call.
    pub(super) fn path(self, method: Method) -> String {
        match self {
            Protocol::V5 => format!("/tfplugin5.Provider/{}", method.v5),
            Protocol::V6 => format!("/tfplugin6.Provider/{}", method.v6),
        }
    }
}
