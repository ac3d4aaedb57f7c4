// Tells whether this process is the one that made an object, or a child forked from it: a number that grows by one in
// every forked child. Reading it costs one load, where getpid() costs a system call.
#pragma once

#include <atomic>
#include <cstdint>

namespace pycomms {

uint32_t fork_generation();

}  // namespace pycomms
