//! Runs the cases of a rule file.

use crate::features::{Row, Value, catalogue, feature};
use crate::rules::condition::evaluate;
use crate::rules::file::{Case, Expect, Rule};

/// A case that did not come out as expected.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseFailure {
    /// Name of the case.
    pub case: String,
    /// What was expected and what came.
    pub what: String,
}

/// What the evidence of one rule says of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// The odds are multiplied by at least 3.
    Supported,
    /// The odds are divided by at least 3.
    Refuted,
    /// Neither.
    Undecided,
}

/// A factor of 3 is the least that Jeffreys' scale calls substantial.
const SUBSTANTIAL: f64 = 3.0;

impl Rule {
    /// Runs the cases; no failure is a pass.
    pub fn run_cases(&self) -> Vec<CaseFailure> {
        self.cases
            .iter()
            .filter_map(|case| self.run_case(case).err())
            .collect()
    }

    /// The factor by which this rule's evidence multiplies the odds of its cause.
    pub fn factor(&self, row: &Row) -> f64 {
        let conditions: Vec<_> = self.evidence.iter().map(|e| &e.when).collect();
        let answers = evaluate(&conditions, std::slice::from_ref(row));
        let ratios = self
            .evidence
            .iter()
            .zip(answers.into_iter().flatten())
            .map(|(e, holds)| {
                (
                    e.group.as_str(),
                    holds.map_or(1.0, |h| if h { e.ratio } else { e.ratio_if_not }),
                )
            });
        crate::rules::capped_log(ratios).exp()
    }

    fn run_case(&self, case: &Case) -> Result<(), CaseFailure> {
        let failed = |what: String| CaseFailure {
            case: case.name.clone(),
            what,
        };
        let row = row_of(&case.given).map_err(failed)?;
        let factor = self.factor(&row);
        let got = match factor {
            f if f >= SUBSTANTIAL => Support::Supported,
            f if f <= 1.0 / SUBSTANTIAL => Support::Refuted,
            _ => Support::Undecided,
        };
        let fits = match case.expect {
            Expect::Supported => got == Support::Supported,
            Expect::Refuted => got == Support::Refuted,
            Expect::Undecided => got == Support::Undecided,
            Expect::LookAlike => got != Support::Supported,
        };
        if fits {
            return Ok(());
        }
        let expected = match case.expect {
            Expect::Supported => "supported",
            Expect::Refuted => "refuted",
            Expect::Undecided => "undecided",
            Expect::LookAlike => "not supported",
        };
        Err(failed(format!(
            "expected {expected}, but the evidence multiplies the odds by {factor:.2}"
        )))
    }
}

fn row_of(given: &toml::Table) -> Result<Row, String> {
    let mut row: Row = catalogue().map(|f| (f.name, None)).collect();
    for (name, value) in given {
        let feature = feature(name).ok_or_else(|| format!("`{name}` is not a feature"))?;
        let value = match value {
            toml::Value::Boolean(b) if feature.boolean => Value::Bool(*b),
            toml::Value::Float(v) if !feature.boolean => Value::Number(*v),
            toml::Value::Integer(v) if !feature.boolean => Value::Number(*v as f64),
            _ => {
                return Err(format!(
                    "`{name}` is {}, but a {} is given",
                    feature.unit,
                    value.type_str()
                ));
            }
        };
        row.insert(feature.name, Some(value));
    }
    Ok(row)
}
