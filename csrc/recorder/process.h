// What /proc and the kernel say about processes and this host. Any thread. Must not know: rings.
#pragma once

#include <cstdint>
#include <string>

namespace pycomms::recorder {

// When the process began, in the kernel's ticks since boot; zero when there is no such process. With the pid it names a
// process for good.
uint64_t started_ticks(int pid);
std::string host_name();

}  // namespace pycomms::recorder
