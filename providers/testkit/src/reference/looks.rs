//! What the reference provider says of itself and sees of its world; it writes nothing.

use super::*;

#[async_trait]
impl Observer for Reference {
    fn info(&self) -> &ProviderInfo {
        &self.info
    }

    async fn kinds(&self, _: &Cx) -> Result<Arc<Kinds>, Error> {
        Ok(Arc::new(Kinds(vec![Kind::of::<ThingSpec>(&["test/v1"], "Thing", "items of one scope")])))
    }

    fn normalize(&self, _: &Kinds, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
        if !manifest.is_for(&self.entry, inputs.is_sole()) {
            return Normalized::default();
        }
        let (spec, problems) = manifest.spec::<ThingSpec>();
        let policy = inputs.policy(manifest.policy.clone());
        let resources = spec.into_iter().flat_map(|spec| {
            let scope = Arc::new(Scope::new(self.entry.clone(), spec.scope));
            spec.items.into_iter().map(move |(key, content)| {
                Resource::new(
                    key.into(),
                    scope.clone(),
                    Spec::known(content.into_bytes()),
                    manifest.origin(manifest.span),
                    policy,
                )
            })
        });
        Normalized { resources: resources.collect(), problems, ..Normalized::default() }
    }

    async fn versions(&self, _: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        if self.role != Role::Zone {
            return Ok(BTreeMap::new());
        }
        let mut versions = BTreeMap::new();
        if let Some(first) = scopes.first() {
            // One call for all of them; its faults are those of any read.
            self.read(first).await?;
        }
        for scope in scopes {
            versions.insert(scope.clone(), token(&self.world.contents(scope)));
        }
        Ok(versions)
    }

    async fn observe(&self, _: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        let (contents, complete) = self.read(want.scope).await?;
        let asked: BTreeSet<&ResourceId> =
            want.desired.iter().map(|d| &d.id).chain(want.tracked.iter().map(|t| &t.id)).collect();
        let mut resources = Vec::new();
        let dropped = if complete { None } else { contents.objects.keys().next() };
        let renamed = self.renamed(&contents, want);
        let is_renamed = |object: &&Object| !renamed.iter().any(|(_, other)| other.remote == object.remote);
        let mut show = |id: &ResourceId, object: &Object| {
            let mut observed = Observed::new(id.clone(), object.content.as_bytes());
            observed.owner = self.owner(object);
            observed.remote = Some(object.remote.clone());
            resources.push(observed);
        };
        for (id, list) in &contents.objects {
            let shown = (self.info.lists || asked.contains(id)) && want.focus.covers(id);
            let shown = shown && Some(id) != dropped && !renamed.iter().any(|(other, _)| *other == id);
            if let Some(object) = list.iter().find(is_renamed).filter(|_| shown) {
                show(id, object);
            }
        }
        for (id, object) in &renamed {
            show(id, object);
        }
        let version = if self.role == Role::Zone { token(&contents) } else { Version::Unknown };
        Ok(Observation { covered: want.focus.clone(), complete, version, resources })
    }

    fn compare(&self, desired: &Resource, observed: &Observed) -> Option<Delta> {
        let (before, after) =
            (String::from_utf8_lossy(&observed.bytes).into_owned(), text(desired).to_string());
        if desired.spec.hash() == Some(observed.hash) {
            return None;
        }
        let replace = after.starts_with('!') || before.starts_with('!');
        let is_due = before == OVERDUE;
        Some(Delta {
            fields: vec![FieldChange::text("content", Some(before), Some(after))],
            replace,
            is_due,
            ..Delta::default()
        })
    }

    async fn diff(&self, _: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
        let mut deltas = diff_by_compare(|d, o| self.compare(d, o), want, seen);
        if !matches!(self.role, Role::Cloud { .. }) {
            return Ok(deltas);
        }
        // The cloud plans by itself, also what does not exist yet, and carries out only what it planned.
        for desired in want.desired {
            if seen.get(&desired.id).is_none() && desired.spec.hash().is_some() {
                let id = FieldChange { path: "id".into(), before: Shown::Absent, after: Shown::Unknown };
                deltas.insert(desired.id.clone(), Ok(Delta { fields: vec![id], ..Delta::default() }));
            }
            if want.tracked.iter().any(|t| t.id == desired.id && *t.private.0 == *HALF) {
                deltas.entry(desired.id.clone()).or_insert_with(|| Ok(Delta::default()));
            }
            if let Some(Ok(delta)) = deltas.get_mut(&desired.id) {
                delta.planned = planned(desired);
            }
        }
        Ok(deltas)
    }

    fn shared_names(&self) -> Option<&'static str> {
        matches!(self.role, Role::Zone).then_some("names")
    }

    fn takes_marks_away(&self, _: &ResourceId) -> bool {
        matches!(self.role, Role::Cloud { .. })
    }

    fn tells_health(&self) -> bool {
        // A host knows how its units fare.
        matches!(self.role, Role::Host)
    }

    async fn health(&self, _: &Cx, want: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
        let is_asked = |id: &ResourceId| want.desired.iter().any(|desired| desired.id == *id);
        let mut told = self.world.health(want.scope);
        told.retain(|(id, _)| self.tells_health() && is_asked(id));
        Ok(told)
    }

    async fn discover(&self, _: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        let scope = Scope::new(self.entry.clone(), query);
        let (contents, complete) = self.read(&scope).await?;
        if !complete {
            return Err(Error::unavailable(format!("{scope}: a page is missing")));
        }
        let resources = contents.objects.iter().filter_map(|(id, list)| {
            let object = list.first()?;
            Some(Observed::new(id.clone(), object.content.as_bytes()))
        });
        Ok(vec![Found::new(scope, resources.collect())])
    }

    fn export(&self, found: &Found) -> Result<Vec<Bytes>, Error> {
        let mut yaml = format!(
            "apiVersion: test/v1\nkind: Thing\nmetadata: {{name: {name}}}\nspec:\n  provider: {entry}\n  scope: {name}\n  items:\n",
            name = found.scope.name,
            entry = self.entry
        );
        for observed in &found.resources {
            let content = serde_json::to_string(&String::from_utf8_lossy(&observed.bytes))
                .map_err(|e| Error::unexpected("export").caused_by(e))?;
            yaml += &format!("    {}: {content}\n", observed.id);
        }
        Ok(vec![Bytes::from(yaml)])
    }

    fn part(&self, _: &Scope, id: &ResourceId) -> Option<Arc<str>> {
        Some(id.0.clone())
    }

    fn slot(&self, id: &ResourceId) -> Option<Slot> {
        // `www/CNAME` wants `www` for itself; keys without a slash have no slot.
        id.0.split_once('/').map(|(name, kind)| Slot { name: name.into(), alone: kind == "CNAME" })
    }

    fn guard_word(&self, _: &Scope, _: &ResourceId) -> Option<&'static str> {
        None
    }

    fn show(&self, _: &ResourceId, bytes: &[u8]) -> Vec<(Arc<str>, String)> {
        vec![("content".into(), String::from_utf8_lossy(bytes).into_owned())]
    }

    fn keep(&self, desired: &Resource, observed: &Observed, ignored: &[Arc<str>]) -> Result<Vec<u8>, Error> {
        // The cloud carries out what it planned itself, and nothing else.
        let is_left = is_ignored(ignored, "content") && !matches!(self.role, Role::Cloud { .. });
        Ok(match is_left {
            true => observed.bytes.to_vec(),
            false => desired.spec.bytes().unwrap_or_default().to_vec(),
        })
    }

    fn place(&self, claim: &Claim, _: &BTreeSet<Scope>) -> Result<(Scope, ResourceId), Error> {
        let text = String::from_utf8_lossy(&claim.spec);
        let (id, _) =
            text.split_once('=').ok_or_else(|| Error::invalid(format!("claim `{text}` is not KEY=VALUE")))?;
        Ok((Scope::new(self.entry.clone(), "claims"), id.into()))
    }

    fn merge(
        &self,
        declared: &[&Resource],
        seen: Option<&Observed>,
        tracked: Option<&Tracked>,
        claims: &[Claim],
    ) -> Result<Option<Merged>, Error> {
        let lines = |bytes: &[u8]| -> BTreeSet<String> {
            String::from_utf8_lossy(bytes).lines().map(str::to_string).collect()
        };
        let ours: BTreeSet<String> =
            declared
                .iter()
                .flat_map(|r| lines(r.spec.bytes().unwrap_or_default()))
                .chain(claims.iter().filter_map(|c| {
                    String::from_utf8_lossy(&c.spec).split_once('=').map(|(_, v)| v.to_string())
                }))
                .collect();
        let before = tracked.map(|t| lines(&t.private.0)).unwrap_or_default();
        let others = seen.map(|o| lines(&o.bytes)).unwrap_or_default();
        let others: BTreeSet<String> = others.into_iter().filter(|line| !before.contains(line)).collect();
        let mine: Vec<String> = ours.iter().filter(|line| !others.contains(*line)).cloned().collect();
        let all: BTreeSet<String> = others.into_iter().chain(ours).collect();
        if all.is_empty() {
            return Ok(None);
        }
        let content = all.into_iter().collect::<Vec<_>>().join("\n");
        let id = declared.first().map(|r| r.id.clone()).or_else(|| seen.map(|o| o.id.clone()));
        let resource = Resource::new(
            id.unwrap_or_else(|| "".into()),
            declared
                .first()
                .map_or_else(|| Arc::new(Scope::new(self.entry.clone(), "claims")), |r| r.scope.clone()),
            Spec::known(content.into_bytes()),
            declared.first().map_or(Origin { manifest: u32::MAX, line: 0 }, |r| r.origin),
            declared.first().map_or(PolicyId(0), |r| r.policy),
        );
        Ok(Some(Merged { resource, ours: Sealed::new(mine.join("\n")) }))
    }

    fn hints(&self) -> BoxStream<'static, Hint> {
        no_hints()
    }
}

impl Reference {
    /// What is tracked by an assigned identity and is there under another name, or in another scope.
    fn renamed<'t>(&self, contents: &Contents, want: &Want<'t>) -> Vec<(&'t ResourceId, Object)> {
        let mut found: Vec<(&ResourceId, Object)> = Vec::new();
        if !matches!(self.role, Role::Cloud { .. }) {
            return found;
        }
        for tracked in want.tracked.iter().filter(|tracked| want.focus.covers(&tracked.id)) {
            let Some(remote) = &tracked.remote else { continue };
            let is_it = |object: &&Object| object.remote == *remote;
            let is_named =
                contents.objects.get(&tracked.id).is_some_and(|list| list.iter().any(|o| is_it(&o)));
            if is_named || found.iter().any(|(id, _)| **id == tracked.id) {
                continue;
            }
            let here = contents.objects.values().flatten().find(is_it).cloned();
            // Other scopes are read as they are now.
            found.extend(here.or_else(|| self.world.elsewhere(want.scope, remote)).map(|o| (&tracked.id, o)));
        }
        found
    }
}
