//! Student's t distribution.
//!
//! The tail is a regularised incomplete beta function (Abramowitz and Stegun 26.7.1), evaluated
//! by its continued fraction (26.5.8) with Lentz's method; quantiles invert it by Newton's steps
//! from below, where a convex falling function is never overshot.

/// The two-sided critical value: the t for which P(|T| <= t) = `confidence` with `degrees`
/// degrees of freedom.
///
/// NaN when `confidence` is not in (0, 1) or `degrees` is not above zero.
pub fn critical_value(confidence: f64, degrees: f64) -> f64 {
    if !(confidence > 0.0 && confidence < 1.0 && degrees > 0.0) {
        return f64::NAN;
    }
    let tail = 1.0 - confidence;
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided_tail(high, degrees) > tail && high < f64::MAX / 4.0 {
        (low, high) = (high, high * 2.0);
    }
    let log_scale = ln_gamma((degrees + 1.0) / 2.0)
        - ln_gamma(degrees / 2.0)
        - (degrees * std::f64::consts::PI).ln() / 2.0;
    let mut t: f64 = low;
    loop {
        let excess = two_sided_tail(t, degrees) - tail;
        if excess > 0.0 {
            low = t
        } else {
            high = t
        }
        let log_density = log_scale - (degrees + 1.0) / 2.0 * (t * t / degrees).ln_1p();
        let newton = t + excess / (2.0 * log_density.exp());
        // rounding may lead out of the bracket, which halving then closes
        let next = if newton > low && newton < high { newton } else { low + (high - low) / 2.0 };
        if (next - t).abs() <= 1e-15 * t || next <= low || next >= high {
            return next;
        }
        t = next;
    }
}

/// P(T <= `t`) with `degrees` degrees of freedom.
pub fn cumulative(t: f64, degrees: f64) -> f64 {
    let tail = two_sided_tail(t.abs(), degrees) / 2.0;
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// P(|T| > `t`) for `t` >= 0.
pub fn two_sided_tail(t: f64, degrees: f64) -> f64 {
    let square = t * t;
    if square.is_infinite() {
        return 0.0;
    }
    // both x and 1 - x are formed without subtraction, or small t and large n would lose digits
    let (x, rest) = (degrees / (degrees + square), square / (degrees + square));
    incomplete_beta(x, rest, degrees / 2.0, 0.5)
}

/// The regularised incomplete beta function I_x(a, b), where `rest` is 1 - x.
fn incomplete_beta(x: f64, rest: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if rest <= 0.0 {
        return 1.0;
    }
    let log_front =
        a * log_of(x, rest) + b * log_of(rest, x) + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    // the fraction converges fast on this side of the mean; the other side is its mirror image
    if x < (a + 1.0) / (a + b + 2.0) {
        log_front.exp() * beta_fraction(x, a, b) / a
    } else {
        1.0 - log_front.exp() * beta_fraction(rest, b, a) / b
    }
}

/// ln `x`, taken from its complement where that is the more exact of the two.
fn log_of(x: f64, complement: f64) -> f64 {
    if complement < 0.5 { (-complement).ln_1p() } else { x.ln() }
}

/// The continued fraction of I_x(a, b), Abramowitz and Stegun 26.5.8.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    // converges in O(sqrt(max(a, b))) steps; the bound only guards against a mistake
    const MAX_STEPS: u32 = 100_000;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };

    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for step in 1..=MAX_STEPS {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        fraction *= d * c;

        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        let change = d * c;
        fraction *= change;
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

/// ln Γ(x) for x > 0: Lanczos' approximation with g = 7 and nine terms, relative error below
/// 1e-14; the reflection formula below 1/2.
fn ln_gamma(x: f64) -> f64 {
    const G: f64 = 7.0;
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        let pi = std::f64::consts::PI;
        return (pi / (pi * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let base = x + G + 0.5;
    let sum = TERMS[1..]
        .iter()
        .zip(1u32..)
        .fold(TERMS[0], |sum, (term, index)| sum + term / (x + f64::from(index)));
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * base.ln() - base + sum.ln()
}

/// Degrees of freedom at which Student's t is the normal distribution to six digits.
const MANY: f64 = 1e9;

/// The probability of a value of at most `z` in the standard normal distribution.
pub fn normal_cumulative(z: f64) -> f64 {
    cumulative(z, MANY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two-sided critical values as printed in the tables (Fisher and Yates; NIST handbook
    /// 1.3.6.7.2).
    const TABLE: [(f64, [f64; 3]); 6] = [
        (1.0, [6.3138, 12.7062, 63.6567]),
        (2.0, [2.9200, 4.3027, 9.9248]),
        (4.0, [2.1318, 2.7764, 4.6041]),
        (9.0, [1.8331, 2.2622, 3.2498]),
        (29.0, [1.6991, 2.0452, 2.7564]),
        (100.0, [1.6602, 1.9840, 2.6259]),
    ];

    #[test]
    fn critical_values_are_those_of_the_tables() {
        for (degrees, row) in TABLE {
            for (confidence, expected) in [0.90, 0.95, 0.99].into_iter().zip(row) {
                let found = critical_value(confidence, degrees);
                assert!(
                    (found - expected).abs() < 0.000_051,
                    "df {degrees}, {confidence}: {found} instead of {expected}"
                );
            }
        }
    }

    #[test]
    fn closed_forms_are_met_to_nine_digits() {
        for confidence in [0.1, 0.5, 0.9, 0.95, 0.999, 0.999_999] {
            // df 1 is Cauchy's distribution, df 2 has an algebraic inverse
            let cauchy = (std::f64::consts::FRAC_PI_2 * confidence).tan();
            let p: f64 = 0.5 + confidence / 2.0;
            let two = (2.0 * p - 1.0) * (2.0 / (4.0 * p * (1.0 - p))).sqrt();
            for (found, exact) in
                [(critical_value(confidence, 1.0), cauchy), (critical_value(confidence, 2.0), two)]
            {
                assert!((found / exact - 1.0).abs() < 1e-9, "{confidence}: {found} {exact}");
            }
        }
    }

    #[test]
    fn many_degrees_approach_the_normal_distribution() {
        assert!((critical_value(0.95, 1e7) - 1.959_963_98).abs() < 1e-5);
        assert!((critical_value(0.99, 1e7) - 2.575_829_30).abs() < 1e-5);
    }

    #[test]
    fn critical_values_and_cumulative_are_inverse() {
        for degrees in [1.0, 3.0, 9.0, 250.0] {
            for confidence in [0.01, 0.4, 0.6, 0.95, 0.998] {
                let t = critical_value(confidence, degrees);
                let above = cumulative(t, degrees) - f64::midpoint(1.0, confidence);
                let below = cumulative(-t, degrees) - (1.0 - confidence) / 2.0;
                assert!(above.abs() < 1e-12 && below.abs() < 1e-12, "{degrees} {confidence}");
            }
        }
    }

    #[test]
    fn distributions_refuse_invalid_arguments() {
        for (confidence, degrees) in
            [(0.0, 3.0), (1.0, 3.0), (-0.5, 3.0), (f64::NAN, 3.0), (0.95, 0.0), (0.95, f64::NAN)]
        {
            assert!(critical_value(confidence, degrees).is_nan(), "{confidence} {degrees}");
        }
    }

    #[test]
    fn ln_gamma_knows_factorials() {
        let mut factorial = 1.0f64;
        for n in 1..20 {
            assert!((ln_gamma(f64::from(n)) - factorial.ln()).abs() < 1e-11, "{n}");
            factorial *= f64::from(n);
        }
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-13);
        assert!((ln_gamma(0.25) - 1.288_022_524_698_077_4).abs() < 1e-12);
    }

    #[test]
    fn values_are_those_of_tables() {
        for (z, probability) in [(0.0, 0.5), (1.0, 0.841_344_746), (-1.96, 0.024_997_895)] {
            assert!(
                (normal_cumulative(z) - probability).abs() < 1e-6,
                "{z}: {}",
                normal_cumulative(z)
            );
        }
    }
}
