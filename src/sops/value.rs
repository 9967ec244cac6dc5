//! One encrypted value of a sops file: `ENC[AES256_GCM,data:…,iv:…,tag:…,type:str]`.

use aes_gcm::{
    AesGcm, KeyInit,
    aead::{AeadInPlace, consts::U32},
    aes::Aes256,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use zeroize::Zeroizing;

/// An encrypted value, taken apart.
pub(super) struct Sealed {
    data: Vec<u8>,
    iv: [u8; 32],
    tag: [u8; 16],
    is_bool: bool,
}

impl Sealed {
    /// None when `text` is no encrypted value.
    pub(super) fn parse(text: &str) -> Option<Sealed> {
        let inner = text.strip_prefix("ENC[AES256_GCM,")?.strip_suffix(']')?;
        let mut fields = inner.split(',');
        let mut field = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix(':');
        let mut bytes = |name: &str| STANDARD.decode(field(name)?).ok();
        let data = bytes("data")?;
        let (iv, tag) = (bytes("iv")?.try_into().ok()?, bytes("tag")?.try_into().ok()?);
        let known = ["str", "int", "float", "bool", "bytes", "time"];
        let kind = field("type").filter(|kind| known.contains(kind))?;
        Some(Sealed { data, iv, tag, is_bool: kind == "bool" })
    }

    /// What is said for the encrypted text `clear`: sops encrypts truth values as its first implementation, in Python, printed
    /// them.
    pub(super) fn said<'a>(&self, clear: &'a [u8]) -> &'a [u8] {
        match clear {
            b"True" if self.is_bool => b"true",
            b"False" if self.is_bool => b"false",
            _ => clear,
        }
    }

    /// The value, if it was encrypted with this key for the place that `context` names.
    pub(super) fn open(&self, key: &[u8; 32], context: &str) -> Option<Zeroizing<Vec<u8>>> {
        let mut clear = Zeroizing::new(self.data.clone());
        let cipher = AesGcm::<Aes256, U32>::new_from_slice(key).ok()?;
        let (iv, tag) = (self.iv.into(), self.tag.into());
        cipher.decrypt_in_place_detached(&iv, context.as_bytes(), &mut clear, &tag).ok()?;
        Some(clear)
    }
}
