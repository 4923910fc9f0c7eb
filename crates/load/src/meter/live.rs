//! Latencies of the last second or so, for whoever looks at a load that runs.

use hdrhistogram::Histogram;

use super::Meter;

impl Meter {
    #[inline]
    pub(super) fn note_live(&mut self, latency_ns: u64) {
        self.live.saturating_record((latency_ns + 500) / 1000);
    }

    /// Adds what came since the last time to a histogram of the same bounds, and forgets it.
    pub fn show(&mut self, into: &mut Histogram<u32>) {
        into.add(&self.live).expect("histograms of the same bounds");
        self.live.reset();
    }
}
