//! Restores the order of the parts of a log that several threads read.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use sysop_core::event::Logged;

/// Maximum parts that wait for their turn.
const PARTS_AHEAD_MAX: u64 = 16;

/// Receives events in order, until it returns `Break`.
pub(super) type BatchSink<'a> = &'a mut (dyn FnMut(Vec<Logged>) -> ControlFlow<()> + Send);

/// Passes on parts, numbered from 0. Every part must be delivered, or `end` called: other threads may wait for it.
pub(super) struct ReorderBuffer<'a> {
    state: Mutex<State<'a>>,
    moved: Condvar,
}

struct State<'a> {
    take: BatchSink<'a>,
    /// Number of the next part.
    next: u64,
    /// Parts read before their turn.
    waiting: BTreeMap<u64, Vec<Logged>>,
    /// True if no further part is passed on.
    ended: bool,
}

impl<'a> ReorderBuffer<'a> {
    pub(super) fn new(take: BatchSink<'a>) -> Self {
        let state = State { take, next: 0, waiting: BTreeMap::new(), ended: false };
        Self { state: Mutex::new(state), moved: Condvar::new() }
    }

    /// Delivers a part, and passes on those whose turn it is. Blocks a thread that is too far ahead of the others.
    pub(super) fn deliver(&self, part: u64, events: Vec<Logged>) -> ControlFlow<()> {
        let mut guard = self.state();
        let state = &mut *guard;
        state.waiting.insert(part, events);
        while !state.ended
            && let Some(events) = state.waiting.remove(&state.next)
        {
            state.next += 1;
            state.ended = (state.take)(events).is_break();
        }
        self.moved.notify_all();
        let is_far = |state: &mut State<'_>| !state.ended && part >= state.next + PARTS_AHEAD_MAX;
        let state = self.moved.wait_while(guard, is_far).unwrap_or_else(PoisonError::into_inner);
        if state.ended { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Stops passing on parts.
    pub(super) fn end(&self) {
        self.state().ended = true;
        self.moved.notify_all();
    }

    /// Returns a guard that calls `end` if this thread panics, so that the others do not wait forever.
    pub(super) fn end_on_panic(&self) -> impl Drop {
        EndOnPanicGuard(self)
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct EndOnPanicGuard<'a, 'b>(&'a ReorderBuffer<'b>);

impl Drop for EndOnPanicGuard<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use sysop_core::event::Event;
    use sysop_core::id::{Seq, Timestamp};

    use super::*;

    fn part(number: u64) -> Vec<Logged> {
        vec![Logged { seq: Seq(number), at: Timestamp(0), event: Event::Resumed }]
    }

    #[test]
    fn parts_are_passed_on_in_their_order_whoever_has_them() {
        let mut taken = Vec::new();
        let mut take = |events: Vec<Logged>| {
            taken.push(events[0].seq.0);
            ControlFlow::Continue(())
        };
        let (order, given) = (ReorderBuffer::new(&mut take), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let number = given.fetch_add(1, Ordering::Relaxed);
                        if number >= 1000 || order.deliver(number, part(number)).is_break() {
                            break;
                        }
                    }
                });
            }
        });
        assert_eq!(taken, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn who_is_far_ahead_waits_for_the_others() {
        let mut count = 0;
        let mut take = |_| {
            count += 1;
            ControlFlow::Continue(())
        };
        let order = ReorderBuffer::new(&mut take);
        let waiting = || order.state().waiting.len() as u64;
        let all = 3 * PARTS_AHEAD_MAX;
        thread::scope(|scope| {
            scope.spawn(|| {
                (1..all).for_each(|number| assert!(order.deliver(number, part(number)).is_continue()))
            });
            while waiting() < PARTS_AHEAD_MAX {
                thread::yield_now();
            }
            for _ in 0..1000 {
                thread::yield_now(); // time enough to deliver more
                assert_eq!(waiting(), PARTS_AHEAD_MAX);
            }
            assert!(order.deliver(0, part(0)).is_continue());
        });
        assert_eq!((waiting(), count), (0, all));
    }

    #[test]
    fn nobody_waits_for_a_part_that_does_not_come_any_more() {
        let mut take = |_: Vec<Logged>| panic!("the first part never came");
        let order = ReorderBuffer::new(&mut take);
        thread::scope(|scope| {
            let waits = scope.spawn(|| order.deliver(PARTS_AHEAD_MAX, part(PARTS_AHEAD_MAX)));
            let panics = scope.spawn(|| {
                let _end = order.end_on_panic();
                panic!("as a test");
            });
            assert!(panics.join().is_err());
            assert!(waits.join().unwrap().is_break());
        });
    }

    #[test]
    fn who_wants_no_more_gets_no_more() {
        let mut taken = Vec::new();
        let mut take = |events: Vec<Logged>| {
            taken.push(events[0].seq.0);
            if taken.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let order = ReorderBuffer::new(&mut take);
        let passed = [2, 0, 1, 3].map(|number| order.deliver(number, part(number)).is_continue());
        assert_eq!(passed, [true, true, false, false]);
        assert_eq!(taken, [0, 1]);
    }
}
