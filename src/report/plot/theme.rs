//! Colours that are told apart without colour vision: Okabe and Ito's, on light and on dark.

use plotters::style::RGBColor;

use crate::report::figure::{MarkKind, Role};

const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xB2);
const SKY: RGBColor = RGBColor(0x56, 0xB4, 0xE9);
const GREEN: RGBColor = RGBColor(0x00, 0x9E, 0x73);
const ORANGE: RGBColor = RGBColor(0xE6, 0x9F, 0x00);
const VERMILION: RGBColor = RGBColor(0xD5, 0x5E, 0x00);
const PURPLE: RGBColor = RGBColor(0xCC, 0x79, 0xA7);
/// Purples that are darker and lighter than the green: who does not see red and green tells them apart by that.
const WINE: RGBColor = RGBColor(0x88, 0x22, 0x55);
const ROSE: RGBColor = RGBColor(0xF2, 0xBD, 0xD8);

/// Five colours of viridis, dark to light: even steps to the eye, whatever colours it sees.
const HEAT: [RGBColor; 5] = [
    RGBColor(0x44, 0x01, 0x54),
    RGBColor(0x3B, 0x52, 0x8B),
    RGBColor(0x21, 0x91, 0x8C),
    RGBColor(0x5E, 0xC9, 0x62),
    RGBColor(0xFD, 0xE7, 0x25),
];

/// The colours of a picture.
pub(super) struct Theme {
    pub(super) paper: RGBColor,
    pub(super) ink: RGBColor,
    /// Letters that are read second.
    pub(super) faint: RGBColor,
    pub(super) grid: RGBColor,
    /// The line that a figure is about.
    pub(super) line: RGBColor,
    /// Branches, by their attempt.
    branches: [RGBColor; 4],
    /// The level and its band.
    pub(super) level: RGBColor,
    /// What is not finite.
    pub(super) broken: RGBColor,
}

impl Theme {
    pub(super) fn of(dark: bool) -> Self {
        let (paper, ink, faint, grid) = if dark {
            (0x16, 0xE8, 0xA6, 0x36)
        } else {
            (0xFF, 0x1A, 0x5C, 0xE4)
        };
        let grey = |v: u8| RGBColor(v, v, v);
        Self {
            paper: grey(paper),
            ink: grey(ink),
            faint: grey(faint),
            grid: grey(grid),
            line: if dark { SKY } else { BLUE },
            branches: [VERMILION, GREEN, if dark { ROSE } else { WINE }, ORANGE],
            level: grey(0x8C),
            broken: VERMILION,
        }
    }

    /// The colour of a curve.
    pub(super) fn series(&self, role: Role, attempt: Option<u32>) -> RGBColor {
        match role {
            Role::Value => self.line,
            _ => self.branches[attempt.unwrap_or(0) as usize % self.branches.len()],
        }
    }

    /// The colour of a mark.
    pub(super) fn mark(&self, kind: MarkKind) -> RGBColor {
        match kind {
            MarkKind::Attempt | MarkKind::Checkpoint => self.faint,
            MarkKind::Incident => ORANGE,
            MarkKind::Skip => SKY,
            MarkKind::Chosen => GREEN,
            MarkKind::Onset => VERMILION,
            MarkKind::Peak => PURPLE,
            MarkKind::Return => self.line,
            MarkKind::GradReturn => self.ink,
        }
    }
}

/// The colour of a strength from 0 to 1.
pub(super) fn heat(strength: f64) -> RGBColor {
    let at = strength.clamp(0.0, 1.0) * (HEAT.len() - 1) as f64;
    let below = (at as usize).min(HEAT.len() - 2);
    let (a, b, share) = (HEAT[below], HEAT[below + 1], at - below as f64);
    let mixed = |a: u8, b: u8| (f64::from(a) + share * (f64::from(b) - f64::from(a))).round() as u8;
    RGBColor(mixed(a.0, b.0), mixed(a.1, b.1), mixed(a.2, b.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How light a colour is to the eye, 0 to 1.
    fn light(c: RGBColor) -> f64 {
        let linear = |v: u8| (f64::from(v) / 255.0).powf(2.2);
        0.2126 * linear(c.0) + 0.7152 * linear(c.1) + 0.0722 * linear(c.2)
    }

    /// Machado's deuteranope, in linear light.
    fn without_green(c: RGBColor) -> [f64; 3] {
        let [r, g, b] = [c.0, c.1, c.2].map(|v| (f64::from(v) / 255.0).powf(2.2));
        [
            0.3673 * r + 0.8606 * g - 0.2280 * b,
            0.2801 * r + 0.6725 * g + 0.0474 * b,
            -0.0118 * r + 0.0429 * g + 0.9689 * b,
        ]
        .map(|v| v.clamp(0.0, 1.0).powf(1.0 / 2.2))
    }

    #[test]
    fn branches_are_told_apart_without_red_and_green() {
        for dark in [false, true] {
            let theme = Theme::of(dark);
            let all: Vec<RGBColor> = [theme.line].into_iter().chain(theme.branches).collect();
            for (n, a) in all.iter().enumerate() {
                assert!((light(*a) - light(theme.paper)).abs() > 0.12, "{a:?}");
                for b in &all[n + 1..] {
                    let (a, b) = (without_green(*a), without_green(*b));
                    let apart: f64 = a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum();
                    assert!(apart.sqrt() > 0.2, "{a:?} {b:?} {apart}");
                }
            }
        }
    }
}
