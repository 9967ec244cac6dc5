//! Whether what was last applied is what is declared.

use crate::{
    desired::{Desired, shared_template},
    store::Row,
};
use reconciled_provider::Resource;

/// True when what was last applied is what is declared, with what others put out by now.
pub(super) fn is_as_declared(desired: &Desired, resource: &Resource, row: &Row) -> bool {
    // What others put into what is shared says nothing of who declares it.
    is_of_declaration(desired, resource, row)
        && (row.merge || resource.spec.hash() == Some(row.tracked.applied))
}

/// True when what was last applied was declared as it is now, whatever others put out since.
pub(crate) fn is_of_declaration(desired: &Desired, resource: &Resource, row: &Row) -> bool {
    match row.merge {
        true => row.template == shared_template(desired.declaring(&row.scope, &resource.id)),
        false => row.template == resource.spec.template(),
    }
}
