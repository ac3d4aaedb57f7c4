// Whether memory of this process may be written to, without trying. Any thread; takes as long as reading /proc/self/maps: up to a
// millisecond. Must not know: whose memory it is.
#pragma once

#include <cstddef>

namespace pycomms {

// False when a page of it is mapped, and read-only. True also where the kernel does not tell.
bool is_writable(const void* data, size_t bytes);

}  // namespace pycomms
