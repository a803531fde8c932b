//! Which line of the program an instruction comes from.

use pjrt_ffi::protos::xla::{HloInstructionProto, HloModuleProto, OpMetadata, StackFrameIndexProto};

use crate::index::Index;

/// Reads metadata and the module's stack frames.
pub(crate) struct Sources<'a> {
    frames: Option<&'a StackFrameIndexProto>,
}

impl<'a> Sources<'a> {
    pub(crate) fn new(module: &'a HloModuleProto) -> Self {
        Self {
            frames: module.stack_frame_index.as_ref(),
        }
    }

    /// `op_name file:line`, as much of it as is known. A fusion without metadata takes its root's, or that of the
    /// last instruction in it that has some.
    pub(crate) fn of(&self, index: &Index<'_>, instruction: &HloInstructionProto) -> String {
        let own = self.describe(instruction.metadata.as_ref());
        if !own.is_empty() || instruction.opcode != "fusion" {
            return own;
        }
        let Some(inner) = index.called(instruction, 0) else {
            return own;
        };
        let rest = inner.proto.instructions.iter().rev();
        inner
            .root()
            .into_iter()
            .chain(rest)
            .map(|i| self.describe(i.metadata.as_ref()))
            .find(|s| !s.is_empty())
            .unwrap_or_default()
    }

    fn describe(&self, metadata: Option<&OpMetadata>) -> String {
        let Some(m) = metadata else {
            return String::new();
        };
        let place = if m.source_file.is_empty() {
            self.frame(m.stack_frame_id)
        } else {
            Some(format!("{}:{}", m.source_file, m.source_line))
        };
        match (m.op_name.as_str(), place) {
            ("", None) => String::new(),
            ("", Some(place)) => place,
            (name, None) => name.to_owned(),
            (name, Some(place)) => format!("{name} {place}"),
        }
    }

    /// The innermost place of a stack frame. Ids count from 1; 0 is none.
    fn frame(&self, id: i32) -> Option<String> {
        let at = |id: i32| usize::try_from(id).ok()?.checked_sub(1);
        let frames = self.frames?;
        let frame = frames.stack_frames.get(at(id)?)?;
        let location = frames.file_locations.get(at(frame.file_location_id)?)?;
        let file = frames.file_names.get(at(location.file_name_id)?)?;
        Some(format!("{file}:{}", location.line))
    }
}
