//! Names are proven: what proves them is in place before the authority is asked to look.

use super::{BRIEFLY, DECLARED, FIRST, LAST, PATIENCE, RECORD, Turn, Work};
use crate::{
    acme::{
        client::Fault,
        message::{Authorization, Challenge as Offer, Order},
        webroot,
    },
    kept::{Challenge, Lasting},
    moment::now,
    wish::Solver,
};
use reconciled_provider::{Claim, Error, Hash, Lives};
use serde_json::json;
use std::{collections::BTreeSet, net::IpAddr, time::Duration};

impl Work<'_> {
    pub(super) async fn authorizations(&self, order: &Order) -> Result<Vec<Authorization>, Fault> {
        let mut all = Vec::new();
        for url in &order.authorizations {
            let what = format!("ask what {} has to prove", self.name);
            all.push(self.client.post(self.desk.cx, url, None, &what).await?.json(&what)?);
        }
        Ok(all)
    }

    /// Proves what is not proven yet.
    pub(super) async fn prove(&mut self, order: &Order) -> Result<Turn, Fault> {
        let open: Vec<Authorization> = self.authorizations(order).await?;
        if let Some(refused) = open.iter().find(|open| !matches!(&*open.status, "pending" | "valid")) {
            return self.unproven(refused);
        }
        let account = self.client.login.account(&self.client, self.desk.cx).await?;
        let (mut over_http, mut in_tls) = (Vec::new(), Vec::new());
        let (mut needed, mut files) = (Vec::new(), Vec::new());
        let (mut urls, mut lasting) = (Vec::new(), BTreeSet::new());
        for open in open.iter().filter(|open| open.status == "pending") {
            let name = open.name();
            let solver = self.authority.solvers.iter().find(|(known, _)| same_name(known, &name));
            let Some((_, solver)) = solver else {
                return Err(Error::unexpected(format!(
                    "the authority wants {name} proven, which was not asked for"
                ))
                .into());
            };
            let Some(challenge) = open.challenges.iter().find(|challenge| challenge.kind == solver.word())
            else {
                let all: Vec<_> = open.challenges.iter().map(|challenge| challenge.kind.as_str()).collect();
                let error = Error::invalid(format!("{name} cannot be proven by {}", solver.word()));
                return Err(error.hint(format!("the authority offers {}", all.join(", "))).into());
            };
            match solver {
                Solver::Dns(provider, delegated) => {
                    let name = record(&open.identifier.value, delegated.as_deref());
                    let value = account.key.txt(&challenge.token);
                    needed.push(Challenge { provider: provider.clone(), name, value });
                }
                Solver::Http => {
                    over_http.push((challenge.token.clone(), account.key.authorization(&challenge.token)))
                }
                Solver::Webroot(directory) => {
                    let path = webroot::file(self.desk.config, directory, &challenge.token)?;
                    files.push((path, account.key.authorization(&challenge.token)));
                }
                Solver::Tls => in_tls.push((name, account.key.digest(&challenge.token))),
                Solver::Persist => {
                    lasting.insert(self.lasting(open, challenge, &account.url)?);
                }
            }
            // One that is answered already is not answered twice.
            if challenge.status == "pending" {
                urls.push(challenge.url.clone());
            }
        }
        let place = &*self.desk.config.place;
        let before = (self.attempt.challenges.clone(), self.attempt.answers.clone());
        self.attempt.challenges = needed;
        for (path, _) in files.iter().filter(|(path, _)| !before.1.contains(path)) {
            self.attempt.answers.push(path.clone());
            self.attempt.made.extend(webroot::missing(place, path).await?);
        }
        if before != (self.attempt.challenges.clone(), self.attempt.answers.clone()) {
            self.keep()?;
        }
        for (path, answer) in &files {
            webroot::put(place, path, answer).await?;
        }
        if !self.attempt.challenges.iter().all(|challenge| self.carried.contains(&claim_key(challenge))) {
            return Ok(Turn::Wait(RECORD, self.claims()));
        }
        if !self.are_told(lasting)? {
            return Ok(Turn::Wait(DECLARED, self.claims()));
        }
        let (http, tls) = (&self.acme.http, &self.acme.tls);
        let has_tls = !in_tls.is_empty();
        let patience = if has_tls || !over_http.is_empty() { PATIENCE } else { BRIEFLY };
        // Another order proves one of the names just now, and has another answer.
        let Some(in_tls) = tls.serve(&in_tls)? else { return Ok(self.later()) };
        let _served = (http.serve(over_http.clone()), in_tls);
        let answer = async {
            match has_tls {
                true => {
                    let listener = tls.open(self.desk.config.listen_tls).await?;
                    tls.during(&listener, self.answer(order, urls, patience)).await?
                }
                false => self.answer(order, urls, patience).await,
            }
        };
        if over_http.is_empty() {
            return answer.await;
        }
        let listener = http.open(self.desk.config.listen).await?;
        http.during(&listener, answer).await
    }

    /// Says that what proves the names is there, and waits a little for the authority to look.
    async fn answer(&self, order: &Order, urls: Vec<String>, patience: Duration) -> Result<Turn, Fault> {
        for url in urls {
            let what = format!("answer a challenge for {}", self.name);
            self.client.post(self.desk.cx, &url, Some(&json!({})), &what).await?;
        }
        let mut wait = FIRST;
        let until = self.desk.cx.clock.now() + patience;
        loop {
            let all = self.authorizations(order).await?;
            if let Some(refused) = all.iter().find(|open| !matches!(&*open.status, "pending" | "valid")) {
                return self.unproven(refused);
            }
            if all.iter().all(|open| open.status == "valid") {
                return Ok(Turn::Again);
            }
            if self.desk.cx.clock.now() >= until || self.desk.cx.stop.is_set() {
                return Ok(self.later());
            }
            self.desk.cx.clock.sleep(wait).await;
            wait = (wait * 2).min(LAST);
        }
    }

    /// The record that proves a name as long as it stands.
    fn lasting(&self, open: &Authorization, challenge: &Offer, account: &str) -> Result<Lasting, Fault> {
        let name = &open.identifier.value;
        let Some(issuer) = challenge.issuer_names.first() else {
            let error = format!("the authority does not say how it is called in a record that proves {name}");
            return Err(Error::unexpected(error).into());
        };
        // One record is enough for a name and all below it.
        let is_wide = self.wish.names.contains(&format!("*.{name}"));
        let policy = if is_wide { "; policy=wildcard" } else { "" };
        Ok(Lasting {
            name: format!("_validation-persist.{name}"),
            value: format!("{issuer}; accounturi={account}{policy}"),
        })
    }

    /// True once the records that others declare were told before: nobody could know them earlier.
    fn are_told(&self, records: BTreeSet<Lasting>) -> Result<bool, Error> {
        let mut known = self.desk.keep.lasting(self.name)?;
        if records.is_subset(&known) {
            return Ok(true);
        }
        // Another value at the same name is that of another account, or of fewer names.
        known.retain(|old| !records.iter().any(|new| new.name == old.name));
        known.extend(records);
        self.desk.keep.put_lasting(self.name, &known)?;
        Ok(false)
    }

    /// What the authority says of a name that is not proven, with the record that it looked for.
    fn refusal(&self, refused: &Authorization) -> Result<String, Error> {
        let (said, name) = (refused.refusal(), refused.name());
        let mut solvers = self.authority.solvers.iter().filter(|(known, _)| same_name(known, &name));
        if !solvers.any(|(_, solver)| *solver == Solver::Persist) {
            return Ok(said);
        }
        let name = format!("_validation-persist.{}", refused.identifier.value);
        let records = self.desk.keep.lasting(self.name)?;
        let record = records.iter().find(|record| record.name == name);
        Ok(record.map_or(said.clone(), |record| format!("{said}; it looks for {record}")))
    }

    /// A name was not proven, which the authority counts.
    pub(super) fn unproven(&self, refused: &Authorization) -> Result<Turn, Fault> {
        if self.counts() {
            let (keep, server, now) = (self.desk.keep, &self.authority.server, now(self.desk.cx));
            self.acme.limits.failure(keep, server, &refused.name(), now)?;
        }
        Ok(Turn::Refused(self.refusal(refused)?))
    }

    /// The records that prove names, as the order needs them now.
    pub(super) fn claims(&self) -> Vec<Claim> {
        self.attempt.challenges.iter().map(claim).collect()
    }

    /// Whether the records that an order may need have a place. What they say is known once there is one.
    pub(super) fn has_place(&self) -> Result<(), Error> {
        let needed = |(name, solver): &(String, Solver)| {
            let Solver::Dns(provider, delegated) = solver else { return None };
            let name = record(name.strip_prefix("*.").unwrap_or(name), delegated.as_deref());
            Some(claim(&Challenge { provider: provider.clone(), name, value: String::new() }))
        };
        let claims: Vec<Claim> = self.authority.solvers.iter().filter_map(needed).collect();
        self.desk.has_place(&claims).map_err(|mut error| {
            error.message = format!("nothing is ordered: {}", error.message);
            error
        })
    }
}

/// Where the record goes that proves `name`.
fn record(name: &str, delegated: Option<&str>) -> String {
    delegated.map_or_else(|| format!("_acme-challenge.{name}."), |name| format!("{name}."))
}

fn claim(challenge: &Challenge) -> Claim {
    Claim {
        key: claim_key(challenge).into(),
        provider: challenge.provider.as_str().into(),
        kind: "dns-txt".into(),
        spec: json!({"name": challenge.name, "value": challenge.value, "ttl": 60}).to_string().into(),
        lives: Lives::WhilePending,
    }
}

/// Names a claim: another value is another claim.
fn claim_key(challenge: &Challenge) -> String {
    Hash::of(format!("{}\n{}\n{}", challenge.provider, challenge.name, challenge.value).as_bytes())
        .to_string()
}

/// The same name or address, in whatever spelling.
fn same_name(one: &str, other: &str) -> bool {
    match (one.parse::<IpAddr>(), other.parse::<IpAddr>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one.eq_ignore_ascii_case(other),
    }
}
