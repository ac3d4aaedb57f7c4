// Aborts of communicators that the engine is still busy with, each on a thread of its own. Nobody waits for one of them alone:
// an engine's abort may return only when its device has nothing left to do, and so when the communicators that the same
// thread aborts next have been aborted as well.
// Any thread. Must not know: communicators, engines.
#pragma once

#include <functional>

#include "base/clock.h"

namespace pycomms {

// Runs the call; without a thread to run it, it is left undone.
void begin_ending(std::function<void()> call);
// Until all calls of this process have returned; false when the deadline passed first.
bool wait_for_endings(Deadline deadline);

}  // namespace pycomms
