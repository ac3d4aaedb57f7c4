// Work on the current CUDA stream, as ATen's kernels would be launched on it.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <functional>
#include <string>

namespace cuemu_aten {

// A stream that lives in torch's own pool, so nothing here owns it.
class Queue {
 public:
  explicit Queue(c10::Device device);  // the current stream of the device

  bool is_capturing() const;
  // What throws when it runs breaks the device, as a failing kernel would. Under capture it runs with each launch of the
  // graph; it is destroyed when nothing can run it any more.
  void add(const std::string& what, std::function<void()> work) const;
  // Waits for all that is in it. Throws under capture.
  void drain() const { stream_.synchronize(); }

 private:
  c10::Stream stream_;
};

}  // namespace cuemu_aten
