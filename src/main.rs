//! Arguments, runtime, exit code; everything else is in the library.

use std::process::ExitCode;

// A daemon that idles gives back what a large plan needed; the C library keeps more than half of it.
// How eagerly is set when it is built, in .cargo/config.toml.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    reconciled::source::begin_alone();
    // Two threads serve the I/O of every verb; more would only cost memory.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(reconciled::cli::main(std::env::args_os()));
            // Nobody waits any more for a repository that does not answer.
            runtime.shutdown_background();
            ExitCode::from(code)
        }
        Err(error) => {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "error: the runtime cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}
