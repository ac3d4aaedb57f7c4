// Kernels of ATen that belong to an operation on GPU tensors and run on its stream: before its engine calls, and behind them.
// Of the issuing thread. Must not know: communicators, what is computed.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StreamGuard.h>

#include <optional>

#include "nccl2/c10d/errors.h"
#include "nccl2/core/sequel.h"

namespace pycomms::c10d_backend {

class DeviceSteps : public Sequel {
 public:
  // Before anything is issued. What it throws, such as that memory is short, ends the call: nothing was sent.
  void prepare(const c10::Stream& stream) {
    stream_ = stream;
    const Scope here(stream);
    before();
  }

  Status compute() final {
    try {
      const Scope here(*stream_);
      behind();
      return {};
    } catch (const std::exception& e) {
      return {Code::kSystem, text_of(e)};
    }
  }

 protected:
  virtual void before() = 0;
  virtual void behind() = 0;

 private:
  // Memory that is taken here belongs to the operation's stream: it may be given back as soon as its last user is issued.
  // Autograd must not see that outputs are written.
  class Scope {
   public:
    explicit Scope(const c10::Stream& stream) : on_(stream) {}

   private:
    c10::StreamGuard on_;
    at::AutoDispatchBelowADInplaceOrView below_autograd_;
  };

  std::optional<c10::Stream> stream_;
};

}  // namespace pycomms::c10d_backend
