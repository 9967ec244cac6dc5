//! `demo`: a tour in a scratch directory, with a real repository, real zone files and the real verbs.
//!
//! Every step is checked: what the tour says happened was looked for in the exit code, in what the verb said and
//! in the zone file. It needs no root, no network, no server and no other program.

use super::{Exit, Out};
use crate::{config::Environment, failure::Failure, source::scratch};
use clap::Args as ClapArgs;
use std::{
    ffi::OsString,
    fs,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
};

/// Arguments of `demo`.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct DemoArgs {
    /// Where to play; must be empty or not exist [default: a new directory under $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

const ZONE: &str = "\
apiVersion: dns/v1
kind: Zone
metadata: {name: example.com}
spec:
  ttl: 300
  records:
    - {name: \"@\",  type: A,     values: [192.0.2.1, 192.0.2.2]}
    - {name: \"@\",  type: MX,    values: [10 mail.example.com.]}
    - {name: \"@\",  type: TXT,   values: [v=spf1 mx -all]}
    - {name: www,  type: CNAME, values: [example.com.], ttl: 60}
    - {name: mail, type: A,     values: [192.0.2.9]}
    - {name: api,  type: A,     values: [192.0.2.20]}
    - {name: blog, type: CNAME, values: [example.com.]}
    - {name: shop, type: A,     values: [192.0.2.30]}
    - {name: docs, type: A,     values: [192.0.2.40]}
";

/// Lines of [`ZONE`] that stay after the great deletion.
const KEPT: usize = 8;
const FILE: &str = "dns/example.com.yaml";
const SOUND: &str = "192.0.2.30";
const DAMAGED: &str = "198.51.100.66";

/// The program: runs one command line within this process. The verb may be any, this one included, so its future has no size of its
/// own.
pub(super) type Program =
    for<'a> fn(Vec<OsString>, Environment, &'a mut Out) -> Pin<Box<dyn Future<Output = Exit> + 'a>>;

/// Runs the verb: the tour is one through `program`.
pub(super) async fn run(
    demo: &DemoArgs,
    program: Program,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let root = directory(demo, &environment)?;
    let mut tour = Tour { root, program, environment, out, chapter: 0 };
    tour.out.record();
    tour.tell("A tour of reconciled: everything below is real and happens in one directory.");
    tour.repository()?;
    tour.first_sync().await?;
    tour.drift().await?;
    tour.great_deletion().await?;
    tour.invalid_commit().await?;
    tour.farewell();
    Ok(Exit::Good)
}

/// The scratch directory, made anew.
fn directory(demo: &DemoArgs, environment: &Environment) -> Result<PathBuf, Failure> {
    let failed = |path: &Path, error| {
        let hint = "name a directory that does not exist, where you may make it: --dir DIR";
        Failure::hinted(format!("create {}: {error}", path.display()), hint)
    };
    let Some(dir) = &demo.dir else {
        let parent = PathBuf::from(environment.var("TMPDIR").unwrap_or("/tmp"));
        let made = tempfile::Builder::new().prefix("reconciled-demo-").tempdir_in(&parent);
        return made.map(tempfile::TempDir::keep).map_err(|error| failed(&parent, error));
    };
    fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    let dir = fs::canonicalize(dir).map_err(|error| failed(dir, error))?;
    if fs::read_dir(&dir).map_err(|error| failed(&dir, error))?.next().is_some() {
        let message = format!("{} is not empty", dir.display());
        return Err(Failure::hinted(message, "name a directory that does not exist: --dir DIR"));
    }
    Ok(dir)
}

/// The tour, and where it is.
struct Tour<'a> {
    root: PathBuf,
    program: Program,
    environment: Environment,
    out: &'a mut Out,
    chapter: u8,
}

impl Tour<'_> {
    fn repository(&mut self) -> Result<(), Failure> {
        self.chapter("A repository says what should be");
        let zones = self.root.join("zones");
        fs::create_dir_all(&zones).map_err(|e| Failure::plain(format!("create {}: {e}", zones.display())))?;
        scratch::create(&self.git())?;
        let config = format!(
            "instance: demo\nstateDir: {root}/state\nsources:\n  - {{name: infra, url: {root}/infra.git}}\n\
             providers:\n  - name: zones\n    type: zonefile\n    directory: {root}/zones\n    \
             nameservers: [ns1.example.com]\n",
            root = self.root.display()
        );
        self.write(&self.config(), &config)?;
        self.tell("The host configuration names where manifests come from and what they may reach:");
        self.show("config.yaml", &config);
        self.commit(ZONE, "zones: add example.com")?;
        self.tell("\nPushed to infra.git, one commit with one manifest:");
        self.show(FILE, ZONE);
        Ok(())
    }

    async fn first_sync(&mut self) -> Result<(), Failure> {
        self.chapter("The plan tells what would change; apply does exactly that");
        let (exit, said) = self.reconciled(&["plan"]).await;
        let is_calm = !said.contains("warning:");
        self.check(exit == Exit::Good && is_calm && said.contains("+ "), "the plan creates records")?;
        self.check(!self.zone_file().exists(), "planning wrote nothing")?;
        let (exit, said) = self.reconciled(&["apply", "--yes"]).await;
        self.check(exit == Exit::Good && said.contains("created"), "apply converges")?;
        self.check(self.zone()?.contains(SOUND), "the records are in the zone file")?;
        self.tell("Once more: what is in sync stays untouched.");
        let (exit, _) = self.reconciled(&["plan", "--detailed-exitcode"]).await;
        self.check(exit == Exit::Good, "a second plan is empty")
    }

    async fn drift(&mut self) -> Result<(), Failure> {
        self.chapter("Somebody edits the result by hand; it is healed");
        let edited = self.zone()?.replace(SOUND, DAMAGED);
        self.write(&self.zone_file(), &edited)?;
        self.command(&format!("sed -i s/{SOUND}/{DAMAGED}/ zones/example.com.zone"));
        let (exit, said) = self.reconciled(&["plan", "--detailed-exitcode"]).await;
        self.check(exit == Exit::Changes && said.contains("drift"), "the plan calls it drift")?;
        let (exit, _) = self.reconciled(&["apply", "--yes"]).await;
        let zone = self.zone()?;
        self.check(
            exit == Exit::Good && zone.contains(SOUND) && !zone.contains(DAMAGED),
            "the drift is healed",
        )
    }

    async fn great_deletion(&mut self) -> Result<(), Failure> {
        self.chapter("A commit deletes most of the zone; the guard asks a person");
        let kept: String = ZONE.lines().take(KEPT).map(|line| format!("{line}\n")).collect();
        self.commit(&kept, "zones: clean up")?;
        self.tell("Pushed: a commit that leaves two of nine records.");
        let (exit, said) = self.reconciled(&["plan", "--out", "deletion.plan"]).await;
        self.check(exit == Exit::Person && said.contains("reconciled approve"), "the plan is held")?;
        self.tell("`--yes` is no consent to this. Held means held, and exit code 3:");
        let (exit, _) = self.reconciled(&["apply", "--yes"]).await;
        self.check(exit == Exit::Person && self.zone()?.contains(SOUND), "nothing was deleted")?;
        self.tell(
            "To consent: `reconciled approve`, as the hint says, or apply the plan that you have read:",
        );
        let (exit, said) = self.reconciled(&["apply", "deletion.plan"]).await;
        self.check(exit == Exit::Good && said.contains("7 deleted"), "what was approved is deleted")?;
        self.check(!self.zone()?.contains(SOUND), "the records are gone from the zone file")
    }

    async fn invalid_commit(&mut self) -> Result<(), Failure> {
        self.chapter("A broken commit breaks nothing");
        let head: String = ZONE.lines().take(KEPT - 2).map(|line| format!("{line}\n")).collect();
        let broken = format!("{head}    - {{name: \"@\",  type: A,     values: [192.0.2.999]}}\n");
        self.commit(&broken, "zones: mistype an address, lose the MX")?;
        let before = self.zone()?;
        self.tell("Pushed: a commit with a bad address, and without the MX record.");
        let (exit, said) = self.reconciled(&["apply", "--yes"]).await;
        let place = format!("{FILE}:7:");
        self.check(
            exit == Exit::Error && said.contains(&place) && said.contains('^'),
            "the error has its place",
        )?;
        self.check(self.zone()? == before, "an invalid manifest neither changes nor deletes anything")
    }

    fn farewell(&mut self) {
        self.chapter("Go on playing");
        let program = std::env::current_exe().unwrap_or_else(|_| "reconciled".into());
        let text = format!(
            "cd {root}\nexport RECONCILED_CONFIG=$PWD/config.yaml\nalias reconciled={program}\n\
             git clone infra.git work      # mend work/{FILE}, commit, push\n\
             reconciled plan\nreconciled apply\nless zones/example.com.zone",
            root = self.root.display(),
            program = program.display()
        );
        self.out.data(&indent(&text));
        let root = self.root.display().to_string();
        self.tell(&format!("Everything is in {root}; remove it when you are done."));
    }

    /// Runs the line in this process, shows it and what it says.
    async fn reconciled(&mut self, line: &[&str]) -> (Exit, String) {
        self.command(&format!("reconciled {}", line.join(" ")));
        let plan = self.root.join("deletion.plan");
        let words = line.iter().map(|word| match *word {
            "deletion.plan" => plan.clone().into_os_string(),
            other => other.into(),
        });
        let config = self.config().into_os_string();
        let words = ["reconciled".into(), "--config".into(), config].into_iter().chain(words);
        self.out.take_recorded();
        let exit = (self.program)(words.collect(), self.environment.clone(), self.out).await;
        self.out.data("");
        (exit, self.out.take_recorded())
    }

    fn commit(&self, zone: &str, message: &str) -> Result<(), Failure> {
        scratch::commit(&self.git(), &[(FILE, zone)], message)?;
        Ok(())
    }

    fn check(&mut self, holds: bool, what: &str) -> Result<(), Failure> {
        if holds {
            self.out.data(&format!("  ✓ {what}\n"));
            return Ok(());
        }
        Err(Failure::hinted(
            format!("the tour did not go as it should: not true that {what}"),
            format!("look at {}", self.root.display()),
        ))
    }

    fn chapter(&mut self, title: &str) {
        self.chapter += 1;
        let head = format!("━━ {}. {title} ", self.chapter);
        let rule = "━".repeat(80usize.saturating_sub(head.chars().count()));
        let (on, off) = if self.out.colour { ("\u{1b}[1m", "\u{1b}[0m") } else { ("", "") };
        self.out.data(&format!("\n{on}{head}{rule}{off}\n"));
    }

    fn command(&mut self, line: &str) {
        let (on, off) = if self.out.colour { ("\u{1b}[1m", "\u{1b}[0m") } else { ("", "") };
        self.out.data(&format!("{on}$ {line}{off}"));
    }

    fn tell(&mut self, text: &str) {
        self.out.data(&format!("{text}\n"));
    }

    fn show(&mut self, name: &str, text: &str) {
        self.command(&format!("cat {name}"));
        self.out.data(&indent(text));
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), Failure> {
        fs::write(path, text).map_err(|e| Failure::plain(format!("write {}: {e}", path.display())))
    }

    fn zone(&self) -> Result<String, Failure> {
        let path = self.zone_file();
        fs::read_to_string(&path).map_err(|e| Failure::plain(format!("read {}: {e}", path.display())))
    }

    fn zone_file(&self) -> PathBuf {
        self.root.join("zones/example.com.zone")
    }
    fn config(&self) -> PathBuf {
        self.root.join("config.yaml")
    }
    fn git(&self) -> PathBuf {
        self.root.join("infra.git")
    }
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::within;

    #[tokio::test]
    async fn the_tour_comes_out_as_it_is_told() {
        // Kept: libgit2's options are those of the first state directory of a process, for all its tests.
        let scratch = tempfile::tempdir().unwrap().keep();
        let environment = Environment::of([]);
        let mut out = Out::new(&environment);
        let demo = DemoArgs { dir: Some(scratch.join("tour")) };
        let exit = run(&demo, within, environment, &mut out).await.unwrap();
        assert_eq!(exit, Exit::Good);
        let said = out.take_recorded();
        assert!(said.contains("git clone infra.git work"), "{said}");
        let zone = fs::read_to_string(scratch.join("tour/zones/example.com.zone")).unwrap();
        assert!(zone.contains("192.0.2.1") && !zone.contains(SOUND), "{zone}");
    }

    #[tokio::test]
    async fn a_directory_with_files_in_it_is_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("mine"), "x").unwrap();
        let environment = Environment::of([]);
        let mut out = Out::new(&environment);
        let demo = DemoArgs { dir: Some(scratch.path().into()) };
        assert!(
            run(&demo, within, environment, &mut out).await.unwrap_err().to_string().contains("not empty")
        );
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    }
}
