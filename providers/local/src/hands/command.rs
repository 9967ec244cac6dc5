//! What a command of the host configuration says of a file or a unit.

use crate::path::FilePath;
use reconciled_command::{Invocation, PATH, excerpt};
use reconciled_provider::{Error, ErrorKind, problem::did_you_mean};
use std::{
    fs::File,
    path::PathBuf,
    process::{Output, Stdio},
    time::Duration,
};

/// Characters of a command's output that are shown.
const EXCERPT: usize = 500;

/// What a command ends with that may know more later: `EX_TEMPFAIL` of `sysexits(3)`.
const NOT_NOW: i32 = 75;

/// What is run.
pub(super) struct Command<'a> {
    pub(super) name: &'a str,
    pub(super) argv: &'a [String],
    pub(super) limit: Duration,
    /// Its output may be told: it often repeats a line of the file.
    pub(super) is_public: bool,
}

/// Why an instance is not known to be well.
#[derive(Clone, Debug)]
pub enum Unwell {
    /// It was asked, and is not.
    No(Error),
    /// It could not be asked, which says nothing of it.
    NotAsked(Error),
}

impl Unwell {
    /// What is wrong.
    pub fn error(self) -> Error {
        match self {
            Unwell::No(error) | Unwell::NotAsked(error) => error,
        }
    }
}

/// How a command gets at what it is asked about.
pub(super) enum Shown {
    /// By this name.
    At(PathBuf),
    /// As its standard input, under the name that this has for it.
    Open(File),
}

/// Runs the command on the draft that is `shown`, the new content of `path`.
///
/// Errors: `Invalid` when the command says no; `Unavailable` when it cannot be run, does not end in time or by itself, or
/// says that it cannot tell now.
pub(super) async fn accepts(command: &Command<'_>, shown: Shown, path: &FilePath) -> Result<(), Error> {
    let (draft, input) = match shown {
        Shown::At(path) => (path.to_string_lossy().into_owned(), Stdio::null()),
        Shown::Open(file) => ("/proc/self/fd/0".to_owned(), file.into()),
    };
    let words: Vec<String> = command.argv.iter().map(|word| word.replace("{file}", &draft)).collect();
    let name = command.name;
    let output = run(name, &words, input, command.limit, &format!("the new {path}")).await?;
    if output.status.success() {
        return Ok(());
    }
    let said = excerpt(&[&output.stdout, &output.stderr], EXCERPT);
    let said = match command.is_public {
        _ if said.is_empty() => String::new(),
        true => format!(": {said}"),
        false => ": what it said may repeat what not everyone may read, and is not shown".into(),
    };
    if matches!(output.status.code(), None | Some(NOT_NOW)) {
        let text = format!("`{name}` cannot tell now of the new {path} ({}){said}", output.status);
        return Err(Error::unavailable(text).hint("the old file is untouched; it is asked again"));
    }
    Err(Error::invalid(format!("`{name}` refuses the new {path} ({}){said}", output.status))
        .hint("the old file is untouched; mend the content in the repository"))
}

/// Runs a command that says whether `unit` is well.
///
/// Errors: it says no or does not end in time; nobody was asked when it cannot be run, does not end by itself, or says that it
/// cannot tell now.
pub(super) async fn accepts_unit(
    name: &str,
    words: &[String],
    limit: Duration,
    unit: &str,
) -> Result<(), Unwell> {
    let output = match run(name, words, Stdio::null(), limit, unit).await {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => output,
        Err(NotRun::Late(error)) => return Err(Unwell::No(error)),
        Err(NotRun::NotBegun(error)) => return Err(Unwell::NotAsked(error)),
    };
    let said = excerpt(&[&output.stdout, &output.stderr], EXCERPT);
    let said = if said.is_empty() { said } else { format!(": {said}") };
    Err(match output.status.code() {
        None | Some(NOT_NOW) => Unwell::NotAsked(Error::unavailable(format!(
            "`{name}` cannot tell now of {unit} ({}){said}",
            output.status
        ))),
        Some(_) => Unwell::No(Error::unavailable(format!(
            "`{name}` says that {unit} is not well ({}){said}",
            output.status
        ))),
    })
}

/// True for what [`unknown`] says of `name`, and the helper.
pub(crate) fn is_unknown(error: &Error, name: &str) -> bool {
    let of = |whose: &str| error.message == format!("the {whose} has no command `{}`", name.escape_debug());
    error.kind == ErrorKind::Invalid && (of("helper") || of("host configuration"))
}

/// No command of the host has this name.
pub(crate) fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let error = Error::invalid(format!("the host configuration has no command `{name}`"));
    match did_you_mean(name, known) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint(format!("declare it under `commands`: {name}: [PROGRAM, \"{{file}}\"]")),
    }
}

/// Why nothing is known of how a command ended.
enum NotRun {
    NotBegun(Error),
    /// It did not end in time.
    Late(Error),
}

impl From<NotRun> for Error {
    fn from(not_run: NotRun) -> Error {
        match not_run {
            NotRun::NotBegun(error) | NotRun::Late(error) => error,
        }
    }
}

/// Runs `words`, whatever they end with.
async fn run(
    name: &str,
    words: &[String],
    input: Stdio,
    limit: Duration,
    on: &str,
) -> Result<Output, NotRun> {
    let Some((program, arguments)) = words.split_first() else {
        let error = Error::invalid(format!("command `{name}` of the host configuration is empty"));
        return Err(NotRun::NotBegun(error));
    };
    let invocation = Invocation { input, ..Invocation::new(program, arguments, limit) };
    reconciled_command::run(invocation).await.map_err(|not_run| match not_run {
        reconciled_command::NotRun::NotBegun(error) => NotRun::NotBegun(
            Error::unavailable(format!("run `{name}` ({program}) on {on}"))
                .hint(format!("is {program} installed? it is looked for in {PATH}"))
                .caused_by(error),
        ),
        reconciled_command::NotRun::Late => {
            let limit = limit.as_secs();
            NotRun::Late(Error::unavailable(format!("`{name}` did not end within {limit} s on {on}")))
        }
    })
}
