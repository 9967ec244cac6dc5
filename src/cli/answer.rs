//! What a verb that acts answers: a line for people, or one object for programs.

use super::{Out, list::one_line};
use crate::failure::Failure;
use clap::{Args as ClapArgs, ValueEnum};
use serde::Serialize;

/// Form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AnswerFormat {
    /// For people
    #[default]
    Text,
    /// For programs: one object on one line
    Json,
}

/// How a verb that acts answers.
#[derive(Clone, Copy, Debug, Default, ClapArgs)]
pub struct AnswerArgs {
    /// Form of output
    #[arg(short, long, value_enum, default_value_t)]
    pub output: AnswerFormat,
}

/// An answer as programs read it. Keys are only added within a `formatVersion` of the same major number.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a, T> {
    format_version: &'static str,
    #[serde(flatten)]
    answer: &'a T,
}

impl AnswerArgs {
    /// True when programs read it.
    pub(super) fn is_json(self) -> bool {
        self.output == AnswerFormat::Json
    }

    /// Writes `answer` for programs, or what `text` says of it for people.
    pub(super) fn tell<T: Serialize>(
        self,
        answer: &T,
        out: &mut Out,
        text: impl FnOnce(&T, &mut Out),
    ) -> Result<(), Failure> {
        match self.output {
            AnswerFormat::Text => text(answer, out),
            AnswerFormat::Json => object(answer, out)?,
        }
        Ok(())
    }
}

/// Writes `answer` for programs.
pub(super) fn object(answer: &impl Serialize, out: &mut Out) -> Result<(), Failure> {
    out.data(&one_line(&Answer { format_version: "1.0", answer })?);
    Ok(())
}
