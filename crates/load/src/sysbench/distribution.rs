//! The distributions that sysbench's keys are drawn from (src/sb_rand.c).

use pgassay_pgbench::random::uniform;
use rand_xoshiro::Xoroshiro128StarStar;
use rand_xoshiro::rand_core::Rng;
use serde::Deserialize;

/// How a number of a range is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Every one as often as any other; sysbench's default after 1.0.20.
    #[default]
    Uniform,
    /// The mean of several uniform ones: a bell around the middle.
    Gaussian,
    /// Three quarters of the draws in the central hundredth, the others bell-shaped around the middle; the default of
    /// sysbench up to 1.0.20.
    Special,
    /// A power of a uniform one: the first fifth is drawn four times in five.
    Pareto,
    /// The n-th in proportion to a negative power of n.
    Zipfian,
}

/// A distribution with its parameters, by sysbench's names and defaults.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RandomOptions {
    /// --rand-type.
    pub distribution: Distribution,
    /// --rand-spec-iter: of how many uniform numbers a bell is the mean.
    pub spec_iter: u32,
    /// --rand-spec-pct: the width of the special distribution's centre in per cent of the range.
    pub spec_pct: u32,
    /// --rand-spec-res: the share of the draws in the centre in per cent.
    pub spec_res: u32,
    /// --rand-pareto-h.
    pub pareto_h: f64,
    /// --rand-zipfian-exp.
    pub zipfian_exp: f64,
}

impl Default for RandomOptions {
    fn default() -> Self {
        Self {
            distribution: Distribution::default(),
            spec_iter: 12,
            spec_pct: 1,
            spec_res: 75,
            pareto_h: 0.2,
            zipfian_exp: 0.8,
        }
    }
}

impl RandomOptions {
    /// With another distribution and sysbench's own parameters.
    pub fn of(distribution: Distribution) -> Self {
        Self {
            distribution,
            ..Self::default()
        }
    }

    /// Why numbers can't be drawn so; None when they can.
    pub fn fault(&self) -> Option<String> {
        if !(1..=1000).contains(&self.spec_iter) {
            Some(format!(
                "spec_iter is {}, but must be from 1 to 1000",
                self.spec_iter
            ))
        } else if self.spec_pct > 100 || self.spec_res > 100 {
            Some("spec_pct and spec_res must be from 0 to 100".to_owned())
        } else if !(self.pareto_h > 0.0 && self.pareto_h < 1.0) {
            Some(format!(
                "pareto_h is {}, but must be between 0 and 1",
                self.pareto_h
            ))
        } else if !(0.0..=100.0).contains(&self.zipfian_exp) {
            Some(format!(
                "zipfian_exp is {}, but must be from 0 to 100",
                self.zipfian_exp
            ))
        } else {
            None
        }
    }
}

/// Draws numbers; what depends on the parameters alone is worked out once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    options: RandomOptions,
    pareto_power: f64,
    zipf: Zipf,
}

impl Sampler {
    /// One of these options, which have no fault.
    pub fn new(options: RandomOptions) -> Self {
        Self {
            options,
            pareto_power: options.pareto_h.ln() / (1.0 - options.pareto_h).ln(),
            zipf: Zipf::new(options.zipfian_exp),
        }
    }

    /// A number from `low` to `high`, both possible.
    #[inline]
    pub fn draw(&self, random: &mut Xoroshiro128StarStar, low: i64, high: i64) -> i64 {
        match self.options.distribution {
            Distribution::Uniform => uniform(random, low, high),
            Distribution::Gaussian => low + scaled(self.bell(random), count(low, high)),
            Distribution::Special => low + self.special(random, count(low, high) - 1.0),
            Distribution::Pareto => low + scaled(fraction(random).powf(self.pareto_power), count(low, high)),
            Distribution::Zipfian => low + self.zipf.draw(random, count(low, high)) - 1,
        }
    }

    fn bell(&self, random: &mut Xoroshiro128StarStar) -> f64 {
        let sum: f64 = (0..self.options.spec_iter).map(|_| fraction(random)).sum();
        sum / f64::from(self.options.spec_iter)
    }

    /// One draw decides between the two parts and, for the central part, is the place in it as well: as it is at
    /// least 1 - share then, the first quarter of the centre is never drawn, as in sysbench.
    fn special(&self, random: &mut Xoroshiro128StarStar, span: f64) -> i64 {
        let (share, width) = (
            f64::from(self.options.spec_res) / 100.0,
            f64::from(self.options.spec_pct) / 100.0,
        );
        let decision = fraction(random);
        if decision < 1.0 - share {
            return scaled(self.bell(random), span);
        }
        whole(decision * (span * width + 1.0) + span / 2.0 - span * width / 2.0)
    }
}

/// Zipf's distribution by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from
/// monotone discrete distributions", ACM TOMACS 6, 1996), with an integral that has a limit at the exponent 1.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Zipf {
    exponent: f64,
    /// Below this distance from the inverse a candidate is taken without a further look.
    shortcut: f64,
    first: f64,
}

impl Zipf {
    fn new(exponent: f64) -> Self {
        let mut zipf = Self {
            exponent,
            shortcut: 0.0,
            first: 0.0,
        };
        zipf.shortcut = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf
    }

    /// From 1 to `count`.
    fn draw(&self, random: &mut Xoroshiro128StarStar, count: f64) -> i64 {
        let last = self.integral(count + 0.5);
        loop {
            let place = last + fraction(random) * (self.first - last);
            let x = self.inverse(place);
            let candidate = (x + 0.5).floor().clamp(1.0, count);
            if candidate - x <= self.shortcut
                || place >= self.integral(candidate + 0.5) - self.density(candidate)
            {
                return whole(candidate);
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    /// (x^(1 - exponent) - 1) / (1 - exponent), and the logarithm of x at the exponent 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let scaled = (1.0 - self.exponent) * log;
        let ratio = if scaled.abs() > 1e-8 {
            scaled.exp_m1() / scaled
        } else {
            1.0 + scaled / 2.0
        };
        ratio * log
    }

    fn inverse(&self, integral: f64) -> f64 {
        let scaled = (integral * (1.0 - self.exponent)).max(-1.0);
        let ratio = if scaled.abs() > 1e-8 {
            scaled.ln_1p() / scaled
        } else {
            1.0 - scaled / 2.0
        };
        (ratio * integral).exp()
    }
}

#[allow(clippy::cast_precision_loss)] // at most 2^32
fn count(low: i64, high: i64) -> f64 {
    (high - low + 1) as f64
}

fn scaled(part: f64, span: f64) -> i64 {
    whole(part * span)
}

#[allow(clippy::cast_possible_truncation)] // at most 2^32
fn whole(number: f64) -> i64 {
    number as i64
}

/// A number from 0 up to and without 1, of 53 random bits.
#[allow(clippy::cast_precision_loss)] // 53 bits are what the type holds
fn fraction(random: &mut Xoroshiro128StarStar) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use pgassay_pgbench::random::seeded;

    use super::*;

    const DRAWS: usize = 100_000;

    fn draws(options: RandomOptions, high: i64) -> Vec<i64> {
        let (sampler, mut random) = (Sampler::new(options), seeded(11));
        let draws: Vec<i64> = (0..DRAWS).map(|_| sampler.draw(&mut random, 1, high)).collect();
        assert!(draws.iter().all(|id| (1..=high).contains(id)));
        assert!((0..1000).all(|_| sampler.draw(&mut random, 7, 7) == 7));
        draws
    }

    fn share(draws: &[i64], low: i64, high: i64) -> f64 {
        let within = draws.iter().filter(|id| (low..=high).contains(*id)).count();
        #[allow(clippy::cast_precision_loss)]
        let share = within as f64 / DRAWS as f64;
        share
    }

    fn is_about(found: f64, expected: f64) -> bool {
        // Six standard deviations.
        let deviation = (expected * (1.0 - expected) / 100_000.0).sqrt();
        (found - expected).abs() < 6.0 * deviation + 1e-4
    }

    #[test]
    fn the_special_distribution_favours_the_centre() {
        let found = draws(RandomOptions::of(Distribution::Special), 100_000);
        // 75 % by design, and 4.8 % of the bell's quarter.
        assert!(is_about(share(&found, 49_500, 50_502), 0.762));
        // The mean of twelve uniform numbers has a standard deviation of a twelfth: 1.6 % of 25 % are out.
        assert!(is_about(1.0 - share(&found, 30_000, 70_000), 0.0041));
        let all = RandomOptions {
            spec_res: 100,
            spec_pct: 10,
            ..RandomOptions::of(Distribution::Special)
        };
        let found = draws(all, 1000);
        assert!((share(&found, 450, 551) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_gaussian_distribution_is_a_bell_over_the_whole_range() {
        let found = draws(RandomOptions::of(Distribution::Gaussian), 100_000);
        // One standard deviation is a twelfth of the range. Of twelve uniform numbers 68.1 % are within it.
        assert!(is_about(share(&found, 41_667, 58_333), 0.6807));
        assert!(is_about(share(&found, 1, 50_000), 0.5));
        let one = RandomOptions {
            spec_iter: 1,
            ..RandomOptions::of(Distribution::Gaussian)
        };
        assert!(is_about(share(&draws(one, 1000), 1, 100), 0.1));
    }

    #[test]
    fn the_pareto_distribution_has_its_first_fifth_four_times_in_five() {
        let found = draws(RandomOptions::of(Distribution::Pareto), 100_000);
        assert!(is_about(share(&found, 1, 20_000), 0.8));
        // Of the first fifth's first fifth the same again.
        assert!(is_about(share(&found, 1, 4000), 0.64));
    }

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn the_zipfian_distribution_has_each_number_by_its_power() {
        for exponent in [0.0, 0.8, 1.0, 2.0] {
            let options = RandomOptions {
                zipfian_exp: exponent,
                ..RandomOptions::of(Distribution::Zipfian)
            };
            let found = draws(options, 50);
            let weights: Vec<f64> = (1..=50).map(|n| f64::from(n).powf(-exponent)).collect();
            let total: f64 = weights.iter().sum();
            for (place, weight) in weights.iter().enumerate() {
                let number = place as i64 + 1;
                assert!(
                    is_about(share(&found, number, number), weight / total),
                    "{exponent} {number}"
                );
            }
        }
    }

    #[test]
    fn parameters_that_draw_nothing_are_named() {
        let fault = |change: fn(&mut RandomOptions)| {
            let mut options = RandomOptions::default();
            change(&mut options);
            options.fault().unwrap_or_default()
        };
        assert!(fault(|o| o.spec_iter = 0).starts_with("spec_iter is 0"));
        assert!(fault(|o| o.spec_pct = 101).starts_with("spec_pct"));
        assert!(fault(|o| o.pareto_h = 1.0).starts_with("pareto_h is 1"));
        assert!(fault(|o| o.zipfian_exp = f64::NAN).starts_with("zipfian_exp"));
        assert_eq!(fault(|_| ()), "");
    }
}
