//! What becomes of a call: an answer, or none.

use prost::Message;

/// What becomes of a call.
pub(crate) enum Answer {
    /// A message.
    Message(Vec<u8>),
    /// A stream of messages.
    Messages(Vec<Vec<u8>>),
    /// A status of gRPC.
    Status(u32, String),
    /// Bytes that are no message.
    Garbage,
    /// The process ends without an answer.
    Death,
    /// The process ends after its answer.
    End,
}

/// An answer of a message.
pub(crate) fn message(message: &impl Message) -> Answer {
    Answer::Message(message.encode_to_vec())
}
