// The options of a group, as users pass them: pycomms.Options.
// Must not know: communicators.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <optional>

namespace pycomms::c10d_backend {

inline constexpr const char* kBackendName = "nccl2";

// How the constructor of a group connects.
enum class Connect {
  kBackground,  // starts to connect and returns; the first operation waits for it
  kEager,       // returns when all ranks are connected
  kLazy,        // does nothing: all ranks must take part in the group's first operation
};

// What a group looks for in the data of its operations.
enum class NanCheck { kOff, kNan, kNanAndInf };

struct GroupOptions : ::c10d::Backend::Options {
  explicit GroupOptions(std::chrono::milliseconds timeout = kBackendDefaultTimeout)
      : ::c10d::Backend::Options(kBackendName, timeout) {}

  // Overrides c10d's on torch versions that have it.
  c10::intrusive_ptr<::c10d::Backend::Options> clone() const { return c10::make_intrusive<GroupOptions>(*this); }

  Connect connect = Connect::kBackground;
  bool is_high_priority_stream = false;  // of asynchronous operations on a GPU
  bool blocking_wait = false;            // Work.wait() on a GPU blocks the host
  bool register_segments = false;        // all of torch's memory on the GPU is registered with NCCL
  int ranks_per_root =
      -1;  // of NCCL's start: as many ranks get their own unique id; 0: one for all; -1: see docs/env.md
  std::optional<NanCheck> nan_check;  // none: whoever makes the group decides
};

}  // namespace pycomms::c10d_backend
