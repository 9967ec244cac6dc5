//! The planner and the guard, spoken to in data: a folder for each rule, with the world (`case.txt`, its lines in
//! `case.rs`) and what is planned for it (`expected.snap`). Digests and properties are compared, not read.

#![expect(clippy::unwrap_used, reason = "a case that cannot be read fails its test")]

mod case;
mod digests;
mod observer;
mod properties;
mod show;
mod words;

use case::Case;
use std::path::Path;

const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plan/scenarios");

fn check(name: &str) {
    let folder = Path::new(SCENARIOS).join(name);
    let text = std::fs::read_to_string(folder.join("case.txt")).unwrap();
    let shown = show::show(&Case::read(&text).answer());
    insta::with_settings!({
        snapshot_path => folder, prepend_module_to_snapshot => false, omit_expression => true
    }, {
        insta::assert_snapshot!("expected", shown);
    });
}

macro_rules! scenarios {
    ($($area:ident { $($name:ident),* $(,)? })*) => {
        $(mod $area {
            $(#[test] fn $name() { super::check(stringify!($name)); })*
        })*
        const NAMES: &[&str] = &[$($(stringify!($name),)*)*];
    };
}

scenarios! {
    changes {
        what_is_missing_is_created,
        what_differs_is_updated_and_says_in_which_field,
        what_cannot_be_changed_in_place_is_replaced,
        what_is_no_longer_desired_is_deleted,
        what_others_are_in_stays_while_they_are_there,
        what_others_are_in_goes_with_all_that_goes,
        what_is_as_desired_is_left_alone,
        what_was_replaced_stays_while_something_stands_on_it,
        what_was_replaced_goes_whatever_is_said_of_drift_warn,
        what_was_replaced_goes_whatever_is_said_of_drift_ignore,
        what_was_replaced_stays_until_its_time_has_come,
        what_was_refused_is_said_until_something_else_is_declared,
        a_deletion_that_was_refused_is_said_while_nothing_is_declared,
        what_comes_to_nothing_is_not_done_until_something_else_is_declared,
        what_came_to_nothing_is_done_once_more_where_a_person_asks_for_it,
        a_write_that_is_seen_settles,
        a_declaration_moved_to_another_file_refreshes_the_row_only,
        what_is_said_otherwise_of_the_same_content_refreshes_the_row_only,
        a_new_document_that_changes_nothing_touches_no_row,
        a_document_is_remembered_only_where_it_was_planned_whole,
        a_document_that_nothing_names_any_more_is_forgotten,
        an_output_that_changed_refreshes_the_row_only,
        what_a_look_says_anew_of_what_is_in_sync_is_remembered,
        a_moved_row_is_a_move_and_no_delete_and_create,
        what_moves_while_it_is_pending_goes_on_under_its_new_name,
        what_is_gone_and_no_longer_desired_lapses,
        the_mark_of_what_is_gone_and_no_longer_desired_goes,
        the_mark_of_what_is_gone_stays_where_nothing_may_be_deleted,
        the_mark_of_what_its_manifest_let_nobody_change_stays,
        the_mark_of_two_that_are_gone_goes_once,
        what_is_gone_is_let_go_of_where_a_mark_of_ours_may_stay,
        what_is_gone_from_a_scope_that_takes_all_is_not_let_go_of,
        a_write_within_the_consistency_window_is_not_repeated,
        a_row_within_the_consistency_window_does_not_lapse,
    }
    ownership {
        what_is_equal_and_untracked_is_adopted,
        what_differs_and_is_untracked_is_a_conflict,
        what_is_there_and_cannot_be_made_as_declared_is_no_conflict,
        the_mark_of_another_instance_is_a_management_conflict,
        a_pending_resource_that_another_instance_marked_is_a_management_conflict,
        consent_to_the_other_instance_takes_the_resource_over,
        consent_to_another_instance_is_void_once_the_resource_moved,
        consent_names_one_other_instance_and_no_third,
        adopt_from_in_the_manifest_takes_over_what_that_tool_marked,
        adopt_from_in_the_manifest_counts_once,
        adopt_from_in_the_manifest_finishes_what_broke_off,
    adopt_from_in_the_manifest_is_no_consent_to_what_bears_no_mark,
        consent_adopts_what_was_shown,
        consent_is_void_once_the_resource_moved,
        consent_is_spent_once_the_resource_is_tracked_not_before,
        the_annotation_adopts_what_differs,
        adopt_never_adopts_not_even_what_is_equal,
        forget_bars_adoption_of_what_is_equal,
        forget_bars_until_the_manifest_is_gone,
        forget_stays_while_a_file_is_broken,
        adopt_said_after_forget_adopts,
        what_was_forgotten_and_nothing_finds_again_is_not_made_a_second_time,
        our_own_mark_without_a_row_needs_no_consent,
        what_was_let_go_of_and_differs_needs_consent_whatever_its_mark_says,
        what_was_let_go_of_and_is_equal_is_adopted,
        what_was_let_go_of_is_remembered_while_it_bears_our_mark,
        consent_to_what_bears_our_mark_is_void_once_it_changed,
        shared_values_are_changed_beside_the_mark_of_another,
        what_another_writes_as_a_whole_is_shared_by_consent,
        foreign_resources_are_counted_and_left_alone,
        what_was_ours_and_a_rule_names_now_is_let_go,
        what_a_rule_names_is_neither_pruned_nor_listed,
    }
    deletion {
        last_applied_abandon_forgets,
        what_is_abandoned_loses_our_mark,
        what_is_abandoned_and_bears_no_mark_of_ours_is_forgotten,
        an_abandonment_that_writes_counts_as_an_update,
        an_abandonment_that_writes_is_stopped_by_a_suspension,
        an_abandonment_that_writes_waits_for_the_policy_of_its_entry,
        what_its_manifest_let_nobody_change_is_abandoned_as_it_is,
        what_was_changed_by_hand_while_suspended_is_abandoned_unasked,
        last_applied_protection_holds_the_deletion,
        last_applied_protection_wins_over_the_manifest_that_replaces,
        protection_holds_a_replacement_also_when_it_heals_drift,
        what_is_to_be_abandoned_is_not_replaced_unasked,
        drift_that_only_a_replacement_heals_is_held,
        a_commit_is_no_word_for_a_replacement_that_drift_alone_needs,
        an_input_is_no_word_for_a_replacement_that_drift_alone_needs,
        a_row_that_carries_the_mark_of_another_is_not_deleted,
        another_source_that_declares_it_takes_it_over_and_nothing_is_pruned,
        what_another_source_declares_in_a_file_that_is_in_error_is_not_pruned,
        only_the_rows_own_source_prunes,
        an_unreachable_source_prunes_nothing,
        what_may_have_gone_to_a_source_that_is_behind_is_not_pruned,
        a_broken_file_freezes_everything_of_its_source,
        what_a_broken_file_declared_is_not_changed_by_another,
        below_a_folder_that_is_gone_all_is_frozen,
        where_files_lie_over_each_other_a_broken_one_may_have_what_another_had,
        an_earlier_path_lets_nothing_out_of_what_is_shared_while_a_later_one_cannot_be_read,
        what_a_path_that_cannot_be_read_may_lie_over_is_neither_made_nor_taken_over,
        a_group_that_nobody_here_has_keeps_what_the_manifest_tracked,
        unassigned_manifests_keep_what_they_tracked,
        what_contributes_to_a_scope_of_another_host_fares_as_that_does,
        of_an_entry_that_ails_nothing_goes,
        a_host_no_longer_selected_prunes_under_its_guard_word,
        a_resource_for_other_hosts_goes_under_the_same_word,
        an_incomplete_observation_creates_and_deletes_nothing,
        a_focused_observation_creates_updates_restores_and_never_deletes,
        target_limits_changes_and_deletes,
        what_a_person_stopped_counts_where_the_rest_is_only_changed,
        a_target_with_its_group_reaches_what_is_deleted,
        a_label_reaches_what_its_manifest_no_longer_declares,
        values_of_others_stay_when_ours_go,
        our_values_do_not_go_where_the_entry_only_observes,
        our_values_do_not_go_where_the_entry_deletes_nothing,
        protected_values_of_ours_do_not_go_unasked,
        a_withdrawn_claim_is_removed_outside_the_guard,
        a_withdrawn_claim_waits_for_a_complete_observation,
        what_is_claimed_is_chosen_with_who_claims_it,
        what_is_claimed_is_chosen_with_the_source_of_who_claims_it,
        what_is_claimed_is_chosen_by_the_labels_of_who_claims_it,
        in_an_exclusive_scope_what_nobody_declared_is_held,
        in_an_exclusive_scope_what_nobody_declared_is_held_the_first_time_whatever_the_guard_says,
        in_an_exclusive_scope_what_nobody_declared_goes_after_the_first_time_as_the_guard_says,
        in_a_scope_that_is_exclusive_no_more_the_first_time_begins_anew,
        what_a_window_stops_of_an_exclusive_scope_is_foreseen_to_be_held_the_first_time,
        in_an_exclusive_scope_what_was_let_go_of_stays,
        in_an_exclusive_scope_that_deletes_nothing_what_was_let_go_of_is_remembered,
        in_an_exclusive_scope_what_nobody_declared_goes_with_the_source_that_says_so,
        in_an_exclusive_scope_another_source_that_is_chosen_deletes_nothing,
        in_an_exclusive_scope_what_the_host_denies_its_source_stays,
        in_an_exclusive_scope_what_nobody_declared_is_chosen_as_a_part_of_its_manifest,
        in_an_exclusive_scope_a_broken_file_protects_what_it_may_declare,
        in_an_exclusive_scope_an_unreachable_source_protects_what_it_may_declare,
        in_an_exclusive_scope_what_a_revision_that_is_not_in_force_declares_stays,
    }
    reasons {
        a_new_declaration_is_a_commit,
        a_change_by_hand_is_drift,
        what_is_due_by_itself_is_no_drift,
        what_is_tracked_and_gone_is_restored,
        a_rotated_secret_is_an_input,
        a_new_normalizer_that_sees_a_difference_is_an_upgrade_and_held,
        a_new_normalizer_that_drops_a_resource_is_an_upgrade_and_held,
        a_new_normalizer_and_a_new_document_is_a_commit,
        what_the_host_makes_of_the_same_commit_is_no_change_of_it,
        a_claim_goes_on_beside_a_deletion_that_is_held,
        a_claim_is_its_own_reason_and_not_guarded,
        what_is_claimed_beside_what_is_declared_needs_a_person,
    }
    drift {
        drift_warn_reports_and_leaves,
        what_a_write_left_unfinished_goes_on_whatever_the_drift_mode,
        drift_ignore_says_nothing_and_remembers_no_version,
        what_was_gone_before_an_input_moved_is_left_as_its_drift_mode_says,
        a_commit_is_applied_whatever_the_drift_mode,
        the_source_says_where_the_manifest_does_not,
        after_a_hand_over_the_new_source_says_what_drift_means,
        ignored_fields_are_no_difference,
        an_ignored_path_covers_what_is_below_it,
        ignored_fields_do_not_hide_the_others,
        an_update_leaves_ignored_fields_as_they_were_seen,
        a_repair_leaves_ignored_fields_as_they_were_seen,
        what_is_made_again_has_what_is_ignored_as_declared,
        what_is_taken_over_keeps_what_is_ignored,
        an_ignored_field_that_cannot_be_left_is_shown,
        an_ignored_field_that_must_not_be_written_stalls,
        what_differs_in_ignored_fields_only_is_adopted,
        what_is_ignored_as_a_whole_and_untracked_is_a_conflict,
        ignoring_everything_leaves_what_exists_as_it_is,
    }
    entries {
        observe_plans_and_writes_nothing,
        create_only_creates,
        create_only_finishes_what_it_began_to_create,
        upsert_only_neither_deletes_nor_replaces,
        what_the_entry_forbids_is_not_counted,
        suspend_plans_and_writes_nothing,
    }
    suspension {
        who_writes_on_the_way_what_is_suspended_waits_for_it,
        who_writes_on_the_way_what_its_manifest_suspends_waits_for_it,
        what_would_be_in_something_that_a_window_stops_from_being_restored_is_foreseen_with_it,
        what_is_suspended_by_its_address_stays_so_under_another_name,
        what_is_suspended_with_its_source_stays_so_with_another_one,
        what_is_suspended_is_planned_and_not_done,
        a_suspension_stops_what_it_means_and_nothing_else,
        what_makes_room_stays_while_its_successor_is_suspended,
        what_is_let_go_waits_while_suspended,
        what_was_changed_by_hand_while_suspended_is_held_afterwards,
        what_was_changed_by_hand_while_suspended_is_held_where_it_was_moved_to,
        a_suspension_that_left_nothing_in_doubt_is_over,
        a_look_at_a_part_does_not_end_a_suspension,
        what_would_be_in_something_that_is_suspended_waits_for_it,
    }
    edges {
        what_depends_on_another_waits_for_it,
        what_depends_on_another_goes_on_once_that_is_ready,
        what_cannot_be_planned_yet_waits_for_what_it_depends_on,
        what_was_built_on_another_is_repaired_although_that_one_waits,
        what_was_begun_is_finished_although_what_it_depends_on_is_on_its_way_too,
        an_unknown_output_is_waited_for,
        an_output_that_became_unknown_changes_nothing,
        creates_follow_edges_and_deletes_go_in_reverse_and_last,
        what_another_scope_still_needs_is_not_deleted,
        what_another_scope_still_needs_says_what_that_waits_for,
        what_something_that_stays_stands_on_stays_too,
        what_something_that_is_not_chosen_stands_on_stays,
        what_waits_for_something_that_is_made_keeps_what_it_stands_on,
        what_something_that_is_anothers_by_now_stands_on_stays,
        what_waits_for_something_that_is_suspended_keeps_what_it_stands_on,
        what_is_declared_elsewhere_by_now_stays_until_that_is_ready,
        what_is_declared_elsewhere_by_now_stays_for_who_was_not_written_since,
        what_is_declared_elsewhere_by_now_goes_although_something_depends_on_it,
        a_part_of_what_something_depends_on_goes_once_the_rest_is_ready,
        what_is_declared_in_another_scope_stays_until_it_is_there,
        what_others_are_in_stays_until_they_are_where_they_are_declared,
        what_a_scope_would_hide_in_another_one_stays,
        what_a_scope_would_hide_in_another_one_goes_with_that_scope,
        what_a_scope_would_hide_stays_with_what_keeps_that_scope,
        what_a_scope_would_hide_waits_with_that_scope_for_the_rest,
        what_would_be_in_something_that_is_made_comes_with_it,
        what_would_be_in_something_that_is_not_chosen_waits_for_it,
        what_would_be_in_something_that_has_no_room_waits_for_it,
        what_would_be_in_something_that_only_a_file_with_errors_declares_waits_for_it,
        what_is_in_something_that_a_file_with_errors_declares_and_that_is_ours_goes_on,
        a_file_with_errors_sends_nothing_to_a_scope_that_it_never_had,
        what_was_ours_in_a_scope_that_only_a_file_with_errors_declares_is_restored,
        what_was_ours_waits_where_a_scope_that_only_a_file_with_errors_declares_is_gone,
        a_cname_that_takes_the_place_of_an_address_is_created_after_its_deletion,
        an_address_waits_while_the_alias_in_its_place_stays,
        an_alias_waits_for_what_is_foreign_at_its_name_and_what_it_replaces_stays,
        an_address_that_takes_the_place_of_a_cname_is_created_after_its_deletion,
        what_makes_room_for_something_that_waits_stays_until_then,
        what_makes_room_for_something_that_waits_leaves_none_for_its_other_successors,
        what_makes_room_for_something_that_is_refused_stays,
        what_makes_room_in_a_scope_that_only_a_file_with_errors_declares_stays,
    }
    pending {
        a_pending_resource_waits_until_its_time,
        a_pending_resource_goes_on_when_its_time_has_come,
        a_new_declaration_overtakes_a_pending_one_and_is_guarded,
        a_create_without_an_answer_is_looked_for,
        a_create_without_an_answer_is_tried_again_once_reads_must_show_it,
        a_create_that_nothing_can_tell_apart_needs_a_person,
        a_create_without_an_answer_stays_a_question_when_nothing_asks_for_it,
        a_replacement_that_nothing_can_tell_apart_needs_a_person,
    }
    guarding {
        too_many_deletes_are_held,
        what_is_to_go_and_cannot_be_seen_now_counts_with_what_goes,
        as_many_deletes_as_the_limit_are_free,
        marks_of_what_is_gone_count_as_updates,
        a_high_share_of_deletes_is_held,
        a_share_counts_from_three_on,
        too_many_updates_are_held,
        a_high_share_of_updates_is_held,
        creates_never_count,
        restores_and_drift_never_count,
        a_replacement_counts_as_a_delete,
        a_replacement_in_one_transaction_counts_as_an_update,
        a_swap_in_one_transaction_counts_as_an_update,
        a_swap_in_two_transactions_counts_as_a_delete,
        a_desired_state_that_became_empty_is_held,
        a_desired_state_of_which_not_all_could_be_read_is_not_empty,
        a_changed_path_is_held_when_something_goes,
        a_changed_path_of_another_source_holds_nothing,
        a_host_is_counted_as_one_domain,
        a_zone_is_counted_on_its_own,
        zone_delete_holds_only_when_the_zone_goes,
        zone_delete_holds_when_the_zone_goes,
        zone_delete_holds_when_the_zone_is_replaced,
        apex_ns_holds_also_an_update,
        apex_ns_holds_the_taking_over,
        apex_ns_does_not_hold_a_create_or_a_repair,
        a_word_taken_from_always_holds_nothing,
        abandoning_is_not_counted,
        a_source_that_needs_consent_is_held_and_its_drift_is_not,
        a_source_that_needs_consent_takes_nothing_over_without,
        drift_alone_of_a_source_that_needs_consent_is_free,
        after_a_recovery_creates_with_assigned_ids_are_held,
        after_a_recovery_what_was_replaced_is_not_ended_unasked,
        after_a_recovery_what_is_gone_by_its_old_identity_is_not_made_again_unasked,
        after_a_recovery_what_a_name_identifies_is_created,
        after_a_recovery_deletes_are_held,
        after_a_recovery_what_is_rolled_back_is_not_written_unasked,
        what_may_be_anothers_where_an_entry_points_to_by_now_is_held,
        where_an_entry_points_to_another_place_what_is_as_it_was_left_or_bears_our_mark_goes_on,
        a_look_at_a_part_does_not_tell_what_is_in_another_place,
        another_place_is_remembered_although_what_is_as_it_was_left_is_stopped,
        another_place_is_not_remembered_while_what_is_stopped_may_be_somebody_elses,
        what_may_be_anothers_and_is_suspended_leaves_another_place_in_doubt,
        what_would_be_replaced_or_gone_on_with_in_another_place_is_held_as_well,
        what_is_missing_in_another_place_is_not_forgotten_while_that_is_in_doubt,
        the_place_of_what_is_tracked_is_remembered_at_once_where_it_was_never_told,
        what_is_frozen_may_be_a_part_of_what_is_held,
        what_a_newer_revision_keeps_may_be_a_part_of_what_is_held,
        what_is_frozen_holds_nothing_that_was_not_held,
        what_a_window_stops_is_judged_as_once_it_opens,
        what_is_begun_goes_on_with_its_claims_where_a_closed_window_heals,
        what_is_begun_of_what_is_protected_goes_on_where_a_closed_window_heals_that,
        what_is_rolled_back_goes_on_where_a_closed_window_lets_that_through,
        what_a_person_passes_goes_on_once_they_ask_for_it,
        what_a_person_passes_and_something_else_stops_waits_for_that,
        what_its_manifest_suspends_is_not_foreseen,
        what_goes_on_meanwhile_is_no_part_of_what_is_foreseen,
    }
}

#[test]
fn every_folder_is_a_test() {
    let mut folders: Vec<String> = std::fs::read_dir(SCENARIOS)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    let mut names = NAMES.to_vec();
    names.sort_unstable();
    assert_eq!(folders, names);
}
