// Tells DeviceSegments what torch's CUDA allocator holds, from the first call on for the rest of the process: the allocator
// has no way to stop telling. Any thread. Must not know: groups, engines.
#pragma once

namespace pycomms::c10d_backend {

// Throws when this torch's allocator cannot tell, naming `op`. CUDA is initialised.
void follow_torchs_segments(const char* op);

}  // namespace pycomms::c10d_backend
