//! Probes for effect previews: read-only scripts that run where the command would run.
//!
//! On this machine, the kernel keeps a probe from writing, even if the script is wrong. Inside that fence,
//! `sudo` cannot gain privileges, so a local probe never uses `sudo`.

use sysop_core::policy::Fence;
use sysop_core::preview::{PreviewPlan, ProbeResult};
use sysop_driver::port::CancellationToken;

use crate::machine::{Program, TimeLimit};
use crate::output::capture::Capture;
use crate::tools::Toolbox;

const PROBE_BYTES_MAX: usize = 1024 * 1024;

impl Toolbox {
    /// Runs a plan's probe. `fence` must keep it from writing, or be off if the machine has no fences.
    pub(crate) async fn probe(
        &self,
        plan: &PreviewPlan,
        fence: &Fence,
        cancel: &CancellationToken,
    ) -> ProbeResult {
        let output = self.probe_output(plan, fence, cancel).await;
        ProbeResult { host: String::new(), output }
    }

    async fn probe_output(
        &self,
        plan: &PreviewPlan,
        fence: &Fence,
        cancel: &CancellationToken,
    ) -> Result<Vec<u8>, String> {
        let Some(script) = plan.script(self.machine.uses_sudo()) else { return Ok(Vec::new()) };
        let mut capture = Capture::for_tool(PROBE_BYTES_MAX);
        let limit = TimeLimit::new(plan.limit());
        let program = Program::Probe { text: script.to_owned() };
        let exec = self.machine.exec(program, fence, &limit, &mut capture, cancel).await;
        exec.map_err(|error| error.to_string())?.end.require_exit(&limit)?;
        let bytes = capture.into_bytes().ok_or("the output is too long")?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(self.secrets.redact(&text).into_owned().into_bytes())
    }
}
