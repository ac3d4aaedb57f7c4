// Tells when a Work without a future has ended: one thread looks at all of them, as long as there are any.
// Any thread. Must not know: what they are.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <exception>
#include <functional>

namespace pycomms::c10d_backend {

// Calls ended(error) once, on a thread without the GIL; null: all is well. The Work is kept until then.
void poll_until_ended(c10::intrusive_ptr<::c10d::Work> work, std::function<void(const std::exception_ptr&)> ended);

}  // namespace pycomms::c10d_backend
