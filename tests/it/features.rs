//! Features on small series whose right value is known by hand: every one of the catalogue.

/// Tests of features, each named after its feature, and the table of them.
macro_rules! of_features {
    ($($feature:ident $body:block)*) => {
        pub(super) const TESTED: &[&str] = &[$(stringify!($feature)),*];
        $(
            #[test]
            fn $feature() $body
        )*
    };
}

mod acute;
mod attention;
mod data;
mod gradient;
mod layers;
mod ops;
mod optimizer;
mod precision;
mod scene;
mod schedule;

use std::collections::BTreeSet;

use whyspike::features::catalogue;

use scene::{ONSET, Scene};

#[test]
fn every_feature_has_a_test_of_its_name() {
    let families = [
        acute::TESTED,
        gradient::TESTED,
        optimizer::TESTED,
        layers::TESTED,
        schedule::TESTED,
        attention::TESTED,
        precision::TESTED,
        data::TESTED,
        ops::TESTED,
    ];
    let tested: BTreeSet<&str> = families.into_iter().flatten().copied().collect();
    let known: BTreeSet<&str> = catalogue().map(|f| f.name).collect();
    let untested: Vec<_> = known.difference(&tested).collect();
    assert!(untested.is_empty(), "no test for {untested:?}");
    let gone: Vec<_> = tested.difference(&known).collect();
    assert!(gone.is_empty(), "no feature for {gone:?}");
}

/// What a log of the loss alone tells without being asked for more.
const OF_ANY_LOG: [&str; 3] = ["restart_dist", "layer_depth", "step_time_z"];

#[test]
fn what_needs_more_than_the_loss_is_unknown_on_a_log_of_the_loss_alone() {
    let row = Scene::new().row();
    for f in catalogue().filter(|f| f.needs != ["loss"] && !OF_ANY_LOG.contains(&f.name)) {
        assert!(row[f.name].is_none(), "{}: {:?}", f.name, row[f.name]);
    }
}

#[test]
fn a_loss_that_was_not_logged_tells_nothing() {
    // What an incident of the gradient norm has of its own: when it began, peaked and went.
    let own = [
        "onset_step",
        "rise_time",
        "return_time",
        "returned",
        "waited",
    ];
    let scene = Scene::new().only("grad_norm", |s| if s == ONSET { 9.0 } else { 1.0 });
    let row = scene.row();
    for f in catalogue().filter(|f| f.needs.contains(&"loss") && !own.contains(&f.name)) {
        assert!(row[f.name].is_none(), "{}: {:?}", f.name, row[f.name]);
    }
}

#[test]
fn the_values_of_a_row_are_finite() {
    let scene = Scene::new()
        .with("grad_norm", |_| 0.0)
        .with("update_norm", |_| 0.0);
    for (name, value) in scene.row() {
        assert!(value.is_none_or(|v| v.number().is_finite()), "{name}");
    }
}
