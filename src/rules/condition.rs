//! Conditions: SQL over features, three-valued, evaluated by polars.

use std::collections::BTreeSet;

use polars::lazy::dsl::{AggExpr, BooleanFunction, Expr, FunctionExpr, Operator};
use polars::prelude::{Column, DataFrame, DataType, IntoLazy, NamedFrom, PolarsResult, Series};
use serde::Deserialize;

use crate::features::{Row, Value, catalogue};

/// A checked condition.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct Condition {
    sql: String,
    expr: Expr,
    features: Vec<String>,
}

/// A condition is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConditionError {
    /// Not an SQL expression.
    #[error("not an SQL condition: {0}")]
    Sql(String),
    /// A part could turn "unknown" into an answer, or is not meant for conditions.
    #[error("{what} is not allowed in a condition: {why}")]
    NotAllowed {
        /// The part.
        what: String,
        /// Why.
        why: &'static str,
    },
    /// A column is not a feature, or has another type.
    #[error("{0}")]
    Evaluation(String),
    /// No feature is read.
    #[error("it reads no feature, so it always gives the same answer")]
    Constant,
    /// With every feature unknown it still has an answer.
    #[error("it answers although nothing is known: unknown features must leave it unknown")]
    Answers,
    /// The result is not true or false.
    #[error("it gives {0}, not true or false")]
    NotBoolean(String),
}

impl TryFrom<String> for Condition {
    type Error = ConditionError;

    fn try_from(sql: String) -> Result<Self, ConditionError> {
        Self::parse(&sql)
    }
}

impl Condition {
    /// Parses and checks a condition (rules/SOURCES.md: both parts of the check are needed).
    pub fn parse(sql: &str) -> Result<Self, ConditionError> {
        let expr = polars::sql::sql_expr(sql)
            .map_err(|e| ConditionError::Sql(first_line(&e.to_string())))?;
        for node in &expr {
            allowed(node)?;
        }
        let mut features: Vec<String> = expr
            .clone()
            .meta()
            .root_names()
            .iter()
            .map(ToString::to_string)
            .collect();
        features.sort();
        features.dedup();
        if features.is_empty() {
            return Err(ConditionError::Constant);
        }
        let condition = Self {
            sql: sql.to_owned(),
            expr,
            features,
        };
        condition.unknown_stays_unknown()?;
        Ok(condition)
    }

    /// The condition as written.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The features that it reads, sorted.
    pub fn features(&self) -> &[String] {
        &self.features
    }

    fn unknown_stays_unknown(&self) -> Result<(), ConditionError> {
        let nothing: Row = catalogue().map(|f| (f.name, None)).collect();
        let out = select(&[self], &[nothing])
            .map_err(|e| ConditionError::Evaluation(first_line(&e.to_string())))?;
        let column = out.columns().first().ok_or(ConditionError::Constant)?;
        if column.dtype() != &DataType::Boolean {
            return Err(ConditionError::NotBoolean(column.dtype().to_string()));
        }
        if column.null_count() == column.len() {
            Ok(())
        } else {
            Err(ConditionError::Answers)
        }
    }
}

/// Answers of conditions on each row: `None` where something they need is unknown.
pub(super) fn evaluate(conditions: &[&Condition], rows: &[Row]) -> Vec<Vec<Option<bool>>> {
    let Ok(out) = select(conditions, rows) else {
        return vec![vec![None; conditions.len()]; rows.len()];
    };
    let answer = |c: &Column, row: usize| c.bool().ok().and_then(|b| b.get(row));
    (0..rows.len())
        .map(|row| out.columns().iter().map(|c| answer(c, row)).collect())
        .collect()
}

fn select(conditions: &[&Condition], rows: &[Row]) -> PolarsResult<DataFrame> {
    let names: BTreeSet<&str> = rows.iter().flat_map(|r| r.keys().copied()).collect();
    let columns = names.into_iter().map(|name| column(name, rows)).collect();
    let frame = DataFrame::new(rows.len(), columns)?;
    let named = conditions
        .iter()
        .enumerate()
        .map(|(i, c)| c.expr.clone().alias(format!("{i}")));
    frame.lazy().select(named.collect::<Vec<_>>()).collect()
}

fn column(name: &str, rows: &[Row]) -> Column {
    let values = || rows.iter().map(|r| r.get(name).copied().flatten());
    let boolean = crate::features::feature(name).is_some_and(|f| f.boolean)
        || values().any(|v| matches!(v, Some(Value::Bool(_))));
    let series = if boolean {
        let of = |v: Option<Value>| v.map(|v| v.number() != 0.0);
        Series::new(name.into(), values().map(of).collect::<Vec<_>>())
    } else {
        let of = |v: Option<Value>| v.map(Value::number).filter(|v| v.is_finite());
        Series::new(name.into(), values().map(of).collect::<Vec<_>>())
    };
    series.into()
}

const ERASES: &str = "it can turn an unknown feature into an answer";
const PLAIN: &str = "write comparisons of features joined with AND, OR and NOT";

/// The allow-list. What is not on it could erase "unknown", or has no place in a condition.
fn allowed(node: &Expr) -> Result<(), ConditionError> {
    let refuse = |what: String, why| Err(ConditionError::NotAllowed { what, why });
    match node {
        Expr::Literal(value) if value.get_datatype() == DataType::Null => {
            refuse("the literal NULL".to_owned(), ERASES)
        }
        Expr::BinaryExpr {
            op: Operator::EqValidity | Operator::NotEqValidity,
            ..
        } => refuse("IS DISTINCT FROM".to_owned(), ERASES),
        Expr::BinaryExpr { left, op, right } if op.is_comparison() && mixed(left, right) => {
            Err(ConditionError::Evaluation(format!(
                "`{node}` compares a true-or-false feature with a number"
            )))
        }
        Expr::Column(_)
        | Expr::Literal(_)
        | Expr::Cast { .. }
        | Expr::Agg(AggExpr::Implode { .. })
        | Expr::BinaryExpr { .. } => Ok(()),
        Expr::Function { function, .. } => function_allowed(function),
        Expr::Alias(_, name) => refuse(
            format!("`{name}` after the condition (read as an alias)"),
            PLAIN,
        ),
        Expr::Ternary { .. } => refuse("CASE, IF or NULLIF".to_owned(), ERASES),
        Expr::Agg(_) | Expr::Len => refuse("an aggregate".to_owned(), PLAIN),
        other => refuse(format!("`{other}`"), PLAIN),
    }
}

/// Whether one side is a true-or-false feature and the other a number.
fn mixed(left: &Expr, right: &Expr) -> bool {
    let boolean = |e: &Expr| match e {
        Expr::Column(name) => crate::features::feature(name).map(|f| f.boolean),
        Expr::Literal(value) => Some(value.get_datatype() == DataType::Boolean),
        _ => None,
    };
    matches!((boolean(left), boolean(right)), (Some(a), Some(b)) if a != b)
}

fn function_allowed(function: &FunctionExpr) -> Result<(), ConditionError> {
    let refuse = |why| {
        Err(ConditionError::NotAllowed {
            what: format!("`{function}`"),
            why,
        })
    };
    match function {
        FunctionExpr::Boolean(BooleanFunction::IsNull | BooleanFunction::IsNotNull) => {
            refuse(ERASES)
        }
        FunctionExpr::Boolean(BooleanFunction::Not | BooleanFunction::IsIn { .. })
        | FunctionExpr::Abs
        | FunctionExpr::Negate
        | FunctionExpr::Pow(_)
        | FunctionExpr::Log => Ok(()),
        FunctionExpr::Coalesce | FunctionExpr::FillNull => refuse(ERASES),
        _ => refuse(PLAIN),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
