// Tells when a Work without a future has ended: one thread looks at all of them, as long as there are any.
// Any thread. Must not know: what they are.
#pragma once

#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <exception>
#include <functional>
#include <optional>

namespace pycomms::c10d_backend {

enum class WorkEnd {
  kEnded,       // with the error, if there is one
  kNobodyWaits  // on the host such a Work may never say that it has ended: it was let go
};
using ToldOfEnd = std::function<void(WorkEnd end, const std::exception_ptr& error)>;

// Calls told() once, on a thread without the GIL. The Work is kept until then. device: the GPU that it runs on, which ends
// it whether somebody waits or not.
void poll_until_ended(c10::intrusive_ptr<::c10d::Work> work, std::optional<c10::Device> device, ToldOfEnd told);

}  // namespace pycomms::c10d_backend
