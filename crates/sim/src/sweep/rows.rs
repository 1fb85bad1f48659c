//! The tables of a sweep: runs, means, differences.

use super::statistics::Estimate;
use super::{Difference, Found, Mean, Number, Row, Setting, Sweep};
use crate::export::Columns;
use crate::export::columns::Cell;

impl Sweep {
    /// One line a run: its number, the keys of the grid, policy, seed, every measure, and why there
    /// are none if there are none.
    #[must_use]
    pub fn table_of_runs<'s>(&'s self, rows: &'s [Row]) -> Columns<'s> {
        runs(self, rows)
    }

    /// One line a point, measure and policy.
    #[must_use]
    pub fn table_of_means<'s>(&'s self, means: &'s [Mean]) -> Columns<'s> {
        of_means(self, means)
    }

    /// One line a point, measure and pair of policies.
    #[must_use]
    pub fn table_of_differences<'s>(&'s self, differences: &'s [Difference]) -> Columns<'s> {
        of_differences(self, differences)
    }
}

fn runs<'s>(sweep: &'s Sweep, rows: &'s [Row]) -> Columns<'s> {
    let mut columns = Columns::new("run", rows.len());
    let place = move |row: usize| sweep.place(rows[row].run);
    columns.push("run", move |row| Cell::Count(rows[row].run as u64));
    settings(sweep, &mut columns, move |row| place(row).0);
    columns.push("policy", move |row| Cell::Text(&sweep.policies[place(row).1]));
    columns.push("seed", move |row| Cell::Count(sweep.seeds[place(row).2]));
    for (index, measure) in sweep.measures.iter().enumerate() {
        let value = move |row: usize| match &rows[row].found {
            Found::Values(values) => values[index],
            Found::Error(_) => None,
        };
        if measure.is_count {
            columns.push(&measure.name, move |row| match value(row) {
                Some(Number::Count(count)) => Cell::MaybeCount(Some(count)),
                _ => Cell::MaybeCount(None),
            });
        } else {
            columns.push(&measure.name, move |row| Cell::MaybeReal(value(row).map(Number::real)));
        }
    }
    columns.push("error", move |row| match &rows[row].found {
        Found::Values(_) => Cell::Text(""),
        Found::Error(error) => Cell::Text(error),
    });
    columns
}

fn of_means<'s>(sweep: &'s Sweep, means: &'s [Mean]) -> Columns<'s> {
    let mut columns = Columns::new("mean", means.len());
    settings(sweep, &mut columns, |row| means[row].point);
    columns.push("measure", |row| Cell::Text(&means[row].measure));
    columns.push("policy", |row| Cell::Text(&means[row].policy));
    estimate(&mut columns, |row| &means[row].estimate);
    columns
}

fn of_differences<'s>(sweep: &'s Sweep, all: &'s [Difference]) -> Columns<'s> {
    let mut columns = Columns::new("difference", all.len());
    settings(sweep, &mut columns, |row| all[row].point);
    columns.push("measure", |row| Cell::Text(&all[row].measure));
    columns.push("policy", |row| Cell::Text(&all[row].policy));
    columns.push("minus", |row| Cell::Text(&all[row].minus));
    estimate(&mut columns, |row| &all[row].estimate);
    columns.push("p", |row| Cell::MaybeReal(all[row].p));
    columns.push("p_holm", |row| Cell::MaybeReal(all[row].p_holm));
    columns.push("significant", |row| Cell::Count(all[row].significant.into()));
    columns
}

fn estimate<'s>(columns: &mut Columns<'s>, of: impl Fn(usize) -> &'s Estimate + Copy + 's) {
    columns.push("n", move |row| Cell::Count(of(row).n as u64));
    columns.push("mean", move |row| Cell::Real(of(row).mean));
    columns.push("deviation", move |row| Cell::MaybeReal(of(row).deviation));
    columns.push("low", move |row| Cell::MaybeReal(of(row).low));
    columns.push("high", move |row| Cell::MaybeReal(of(row).high));
}

/// A column a key of the grid.
fn settings<'s>(
    sweep: &'s Sweep,
    columns: &mut Columns<'s>,
    point: impl Fn(usize) -> usize + Copy + 's,
) {
    for (index, (name, _)) in sweep.settings(0).iter().enumerate() {
        columns.push(name, move |row| match &sweep.settings(point(row))[index].1 {
            Setting::Integer(integer) => Cell::Integer(*integer),
            Setting::Real(real) => Cell::Real(*real),
            Setting::Text(text) => Cell::Text(text),
        });
    }
}
