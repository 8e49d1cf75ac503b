//! Progress of a reply: counts bytes and decides how often to report them. Pure: the caller measures time.

use std::time::{Duration, Instant};

use sysop_core::model_progress::ModelProgress;
use sysop_driver::port::ModelEvent;

/// A reply that is complete sooner is not worth a report.
const SLOW_MIN: Duration = Duration::from_millis(300);
/// Minimum time between two reports.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// Counts the bytes of one reply.
#[derive(Debug, Default)]
pub(super) struct ReplyMeter {
    prompt: Option<(u64, u64)>,
    /// Arrival of the first bytes of the reply.
    first: Option<Instant>,
    reported: Option<(Instant, usize)>,
}

impl ReplyMeter {
    /// Records that `bytes` of the reply have arrived by `now`. Adds a report to the events if one is due.
    pub(super) fn observe(&mut self, bytes: usize, now: Instant, out: &mut Vec<ModelEvent>) {
        for event in out.iter() {
            if let ModelEvent::Progress(ModelProgress { prompt, .. }) = event {
                self.prompt = prompt.or(self.prompt);
            }
        }
        if bytes == 0 {
            return;
        }
        let receiving = now.saturating_duration_since(*self.first.get_or_insert(now));
        let is_due = self.reported.is_none_or(|(last, before)| {
            now.saturating_duration_since(last) >= REPORT_INTERVAL && before != bytes
        });
        if receiving < SLOW_MIN || !is_due {
            return;
        }
        self.reported = Some((now, bytes));
        out.push(ModelEvent::Progress(ModelProgress {
            prompt: self.prompt,
            received: (bytes as u64 * 2 / 7).max(1), // as `token_estimate::prose`
            receiving_ms: u64::try_from(receiving.as_millis()).unwrap_or(u64::MAX),
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use sysop_core::model_progress::ModelProgress;
    use sysop_driver::port::ModelEvent;

    use super::ReplyMeter;

    #[test]
    fn a_slow_reply_is_reported_at_most_four_times_a_second() {
        let (mut meter, start) = (ReplyMeter::default(), Instant::now());
        let mut reports = Vec::new();
        for step in 0..100_u32 {
            let mut out = Vec::new();
            meter.observe(7 * step as usize, start + Duration::from_millis(20) * step, &mut out);
            reports.extend(out);
        }
        // Nothing within the first 300 ms, then one each 260 ms, which is the next multiple of 20 ms.
        assert_eq!(reports.len(), 7);
        let first = ModelProgress { prompt: None, received: 32, receiving_ms: 300 };
        assert_eq!(reports[0], ModelEvent::Progress(first));
    }

    #[test]
    fn the_progress_of_the_prompt_stays_known() {
        let (mut meter, start) = (ReplyMeter::default(), Instant::now());
        let prompt = ModelProgress { prompt: Some((9, 10)), ..ModelProgress::default() };
        let mut out = vec![ModelEvent::Progress(prompt)];
        meter.observe(0, start, &mut out);
        assert_eq!(out, [ModelEvent::Progress(prompt)]);
        meter.observe(7, start, &mut out);
        let mut later = Vec::new();
        meter.observe(14, start + Duration::from_secs(2), &mut later);
        let told = ModelProgress { prompt: Some((9, 10)), received: 4, receiving_ms: 2_000 };
        assert_eq!(later, [ModelEvent::Progress(told)]);
    }
}
