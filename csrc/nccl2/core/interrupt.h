// How often whoever waits looks for Ctrl-C.
#pragma once

#include "base/clock.h"

namespace pycomms {

inline constexpr int64_t kInterruptPoll = 50 * kMillisecond;

}  // namespace pycomms
