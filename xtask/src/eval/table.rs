//! The results: one line per task and agent, sums with confidence intervals, and the same as JSON.

use serde_json::{Value, json};

use super::agent::{AgentKind, TaskRun};
use super::task::EvalTask;

/// Quantile of the standard normal distribution for a 95% confidence interval.
const Z: f64 = 1.959_963_984_540_054;

/// The runs of an agent on a task.
pub(crate) struct TaskResult<'a> {
    pub(crate) task: &'a EvalTask,
    pub(crate) agent: AgentKind,
    pub(crate) runs: Vec<TaskRun>,
}

/// Sums over the runs of an agent on several tasks.
#[derive(Default)]
struct Sum {
    tasks: usize,
    runs: u64,
    solved: u64,
    requests: u64,
    prompt_tokens: u64,
    completion_tokens: u64,
    estimated: u64,
    seconds: f64,
}

impl Sum {
    fn add(&mut self, result: &TaskResult<'_>) {
        self.tasks += 1;
        for run in &result.runs {
            self.runs += 1;
            self.solved += u64::from(run.solved);
            self.requests += run.model.requests;
            self.prompt_tokens += run.model.prompt_tokens;
            self.completion_tokens += run.model.completion_tokens;
            self.estimated += run.model.estimated;
            self.seconds += run.seconds;
        }
    }

    fn of<'a, 'b: 'a>(results: impl Iterator<Item = &'a TaskResult<'b>>) -> Self {
        let mut sum = Self::default();
        results.for_each(|result| sum.add(result));
        sum
    }

    /// Returns the mean of a total over all runs.
    fn mean(&self, total: f64) -> f64 {
        if self.runs == 0 { 0.0 } else { total / self.runs as f64 }
    }

    /// Returns the cells after the names: solved, requests, tokens, and seconds, the last three as means per run.
    fn cells(&self) -> String {
        let mark = if self.estimated > 0 { "~" } else { "" };
        let solved = format!("{}/{}", self.solved, self.runs);
        let prompt = format!("{mark}{:.0}", self.mean(self.prompt_tokens as f64));
        let completion = format!("{mark}{:.0}", self.mean(self.completion_tokens as f64));
        format!(
            "{solved:>7} {:>9.1} {prompt:>14} {completion:>14} {:>8.1}",
            self.mean(self.requests as f64),
            self.mean(self.seconds)
        )
    }

    fn json(&self) -> Value {
        let (low, high) = wilson(self.solved, self.runs);
        json!({
            "tasks": self.tasks, "runs": self.runs, "solved": self.solved, "interval_95": [low, high],
            "requests": self.requests, "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens, "estimated_requests": self.estimated,
            "seconds": self.seconds
        })
    }
}

/// Returns the 95% Wilson score interval of the success rate; 0 to 1 if there are no runs.
pub(crate) fn wilson(solved: u64, runs: u64) -> (f64, f64) {
    if runs == 0 {
        return (0.0, 1.0);
    }
    let n = runs as f64;
    let share = solved as f64 / n;
    let scale = 1.0 + Z * Z / n;
    let center = (share + Z * Z / (2.0 * n)) / scale;
    let half = Z / scale * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((center - half).max(0.0), (center + half).min(1.0))
}

/// Returns the results as aligned text: a row per task and agent, then the sums.
pub(crate) fn table(results: &[TaskResult<'_>]) -> String {
    let width = results.iter().map(|result| result.task.name.len()).max().unwrap_or_default().max(4);
    let mut text = format!(
        "{:width$}  half  agent      {:>7} {:>9} {:>14} {:>14} {:>8}\n",
        "task", "solved", "requests", "prompt tokens", "answer tokens", "seconds"
    );
    for result in results {
        let half = if result.task.easy { "easy" } else { "hard" };
        let cells = Sum::of([result].into_iter()).cells();
        text.push_str(&format!("{:width$}  {half}  {:9}  {cells}\n", result.task.name, result.agent.name()));
    }
    text.push('\n');
    for (agent, part, sum) in sums(results) {
        let (low, high) = wilson(sum.solved, sum.runs);
        text.push_str(&format!(
            "{:9} {part:5} {:>3}/{} solved = {:.0}% (95% interval {:.0} to {:.0}%); for each run {:.1} requests, \
             {:.0} prompt tokens, {:.0} answer tokens, {:.0} s\n",
            agent.name(),
            sum.solved,
            sum.runs,
            100.0 * sum.mean(sum.solved as f64),
            100.0 * low,
            100.0 * high,
            sum.mean(sum.requests as f64),
            sum.mean(sum.prompt_tokens as f64),
            sum.mean(sum.completion_tokens as f64),
            sum.mean(sum.seconds)
        ));
    }
    if results.iter().flat_map(|result| &result.runs).any(|run| run.model.estimated > 0) {
        text.push_str("~ estimated from bytes, because a response reported no token counts\n");
    }
    text
}

/// Returns the sums of each agent, for the easy tasks, the hard tasks, and all tasks.
fn sums(results: &[TaskResult<'_>]) -> Vec<(AgentKind, &'static str, Sum)> {
    let mut sums = Vec::new();
    for agent in [AgentKind::Sysop, AgentKind::Reference] {
        let ours = || results.iter().filter(move |result| result.agent == agent);
        for (part, sum) in [
            ("easy", Sum::of(ours().filter(|result| result.task.easy))),
            ("hard", Sum::of(ours().filter(|result| !result.task.easy))),
            ("whole", Sum::of(ours())),
        ] {
            if sum.runs > 0 {
                sums.push((agent, part, sum));
            }
        }
    }
    sums
}

/// Returns all numbers as JSON.
pub(crate) fn json(results: &[TaskResult<'_>], model: &str) -> Value {
    let run = |run: &TaskRun| {
        json!({
            "solved": run.solved, "end": run.end.name(), "complaint": run.complaint, "seconds": run.seconds,
            "requests": run.model.requests, "failed_requests": run.model.failed,
            "prompt_tokens": run.model.prompt_tokens, "completion_tokens": run.model.completion_tokens,
            "estimated_requests": run.model.estimated, "request_bytes": run.model.request_bytes
        })
    };
    let tasks: Vec<_> = results
        .iter()
        .map(|result| {
            json!({
                "task": result.task.name, "easy": result.task.easy, "tags": result.task.tags,
                "agent": result.agent.name(), "runs": result.runs.iter().map(run).collect::<Vec<_>>()
            })
        })
        .collect();
    let sums: Vec<_> = sums(results)
        .into_iter()
        .map(|(agent, part, sum)| json!({"agent": agent.name(), "part": part, "sum": sum.json()}))
        .collect();
    json!({"model": model, "tasks": tasks, "sums": sums})
}
