//! pjrt
