//! The process-wide options of libgit2, set once.
//!
//! libgit2 keeps its timeouts, its memory limits and the places where it looks for configuration in globals
//! without a lock, so the functions that set them are `unsafe`. This package holds the only `unsafe` of the
//! workspace: three functions, two behind a lock and one for a process without other threads.
//!
//! # Guarantees
//! - The options of the first call win; later calls change nothing and report what the first one returned.
//! - libgit2 reads no configuration of the user or the system: only what is under [`Options::config`].
//! - The certificates of the system are read by who connects by https, and by nobody else.
//!
//! # Assumptions
//! - [`set`] is called before any other thread uses libgit2.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use git2::ConfigLevel;

/// What libgit2 is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of the one `.gitconfig` that is read (`safe.directory` counts only there).
    pub config: PathBuf,
    /// The directory taken for `~`: libgit2 prefers the host key types in its `.ssh/known_hosts`.
    pub home: PathBuf,
    /// How long connecting may take, in milliseconds.
    pub connect_timeout: i32,
    /// How long the peer may stay silent, in milliseconds.
    pub timeout: i32,
    /// Opens repositories whoever owns them: for a process that Git started in one it had checked itself.
    pub trusts_any_owner: bool,
}

/// The size of one window into a pack file, in bytes.
const WINDOW: usize = 8 << 20;
/// How much of all pack files may be mapped at a time, in bytes.
const MAPPED: usize = 64 << 20;
/// How many pack files may be open at a time.
const FILES: usize = 64;
/// How much the cache of parsed objects may hold, in bytes.
const CACHE: isize = 8 << 20;

/// Makes libgit2 ready, before anything else calls it.
///
/// OpenSSL reads the certificates that the system trusts when libgit2 begins, if it knows where they are, and most
/// processes never need them. `git2` tells it where before it makes libgit2 ready, so it must not be the first to do so.
pub fn begin() {
    libgit2_sys::init();
}

/// Makes libgit2 ready in a process that has one thread as yet, so that OpenSSL does not read the certificates either where the
/// environment names them: that takes longer than all the rest of a plan of little. Does nothing in any other process.
pub fn begin_alone() {
    if !std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1) {
        return;
    }
    #[expect(clippy::disallowed_methods, reason = "OpenSSL reads these itself")]
    let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].map(|name| Some((name, std::env::var_os(name)?)));
    if named.iter().any(Option::is_some) {
        begin_without(named.into_iter().flatten());
    }
}

#[expect(unsafe_code, reason = "the environment is a global without a lock")]
fn begin_without(named: impl Iterator<Item = (&'static str, OsString)> + Clone) {
    // SAFETY: the caller saw that no other thread is there, and only this one could begin another.
    named.clone().for_each(|(name, _)| unsafe { std::env::remove_var(name) });
    begin();
    // SAFETY: as above; libgit2 begins no thread.
    named.for_each(|(name, place)| unsafe { std::env::set_var(name, place) });
}

/// Trusts what the system trusts, or what `SSL_CERT_FILE` and `SSL_CERT_DIR` name: before the first https connection.
///
/// # Errors
/// Returns what libgit2 said about the certificates.
pub fn trust_roots() -> Result<(), String> {
    static ARE_LOADED: Mutex<bool> = Mutex::new(false);
    let mut are_loaded = ARE_LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*are_loaded {
        // What fails is tried again with the next connection.
        load_roots().map_err(|error| error.message().to_owned())?;
        *are_loaded = true;
    }
    Ok(())
}

#[expect(unsafe_code, reason = "the certificates that libgit2 trusts are a global without a lock")]
fn load_roots() -> Result<(), git2::Error> {
    begin();
    let found = openssl_probe::probe();
    // SAFETY: a lock lets one thread in, and every https connection comes after it.
    let (file, directory) = unsafe {
        (
            found.cert_file.map(|file| git2::opts::set_ssl_cert_file(file)),
            found.cert_dir.map(|directory| git2::opts::set_ssl_cert_dir(directory)),
        )
    };
    match (file, directory) {
        (Some(Err(error)), None | Some(Err(_))) | (None, Some(Err(error))) => Err(error),
        _ => Ok(()),
    }
}

/// Sets the options, the first time it is called.
///
/// # Errors
/// Returns what libgit2 said about the first option it refused.
pub fn set(options: &Options) -> Result<(), String> {
    static OUTCOME: OnceLock<Result<(), String>> = OnceLock::new();
    OUTCOME.get_or_init(|| set_all(options).map_err(|error| error.message().to_owned())).clone()
}

#[expect(unsafe_code, reason = "libgit2's options are globals without a lock")]
fn set_all(options: &Options) -> Result<(), git2::Error> {
    begin();
    git2::opts::strict_object_creation(true);
    git2::opts::strict_hash_verification(true);
    let home = std::ffi::CString::new(options.home.to_string_lossy().as_bytes())
        .map_err(|_| git2::Error::from_str("the home directory contains a NUL"))?;
    // SAFETY: `OnceLock` lets one thread in, and the caller promises that no other thread uses libgit2 yet.
    unsafe {
        git2::opts::set_search_path(ConfigLevel::Global, options.config.as_path())?;
        for level in [ConfigLevel::System, ConfigLevel::XDG, ConfigLevel::ProgramData] {
            git2::opts::set_search_path(level, "")?;
        }
        git2::opts::set_server_connect_timeout_in_milliseconds(options.connect_timeout)?;
        git2::opts::set_server_timeout_in_milliseconds(options.timeout)?;
        git2::opts::set_verify_owner_validation(!options.trusts_any_owner)?;
        git2::opts::set_mwindow_size(WINDOW)?;
        git2::opts::set_mwindow_mapped_limit(MAPPED)?;
        git2::opts::set_mwindow_file_limit(FILES)?;
        git2::opts::set_cache_max_size(CACHE)?;
    }
    let home: *const std::ffi::c_char = home.as_ptr();
    // SAFETY: as above; the option takes one C string, which libgit2 copies before it returns.
    let status =
        unsafe { libgit2_sys::git_libgit2_opts(libgit2_sys::GIT_OPT_SET_HOMEDIR as std::ffi::c_int, home) };
    if status < 0 {
        return Err(git2::Error::last_error(status));
    }
    Ok(())
}
