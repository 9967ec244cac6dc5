//! What the units of a deployment are called.

/// The template of the deployment called `name`.
pub(crate) fn template(name: &str) -> String {
    format!("{name}@.service")
}

/// An instance of the deployment called `name`.
pub(crate) fn instance(name: &str, number: u32) -> String {
    format!("{name}@{number}.service")
}

/// The deployment that a unit belongs to by its name, and which instance it is; none for the template.
pub(crate) fn parts(unit: &str) -> Option<(&str, Option<u32>)> {
    let (name, number) = unit.strip_suffix(".service")?.split_once('@')?;
    match number {
        "" => Some((name, None)),
        number => {
            let parsed: u32 = number.parse().ok()?;
            // `web@01.service` is another unit than `web@1.service`.
            (parsed.to_string() == number).then_some((name, Some(parsed)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_says_by_its_name_which_deployment_it_is_of() {
        assert_eq!(parts("web@.service"), Some(("web", None)));
        assert_eq!(parts("web@12.service"), Some(("web", Some(12))));
        assert_eq!(parts("web@01.service"), None);
        assert_eq!((parts("web.service"), parts("web@1.timer")), (None, None));
    }
}
