// The OpState of an operation on tensors: it holds every tensor that the engine reads or writes until the engine is done
// with them, even if the Work and the group are gone by then. Must not know: communicators, Work.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <c10/util/SmallVector.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "nccl2/c10d/value_check.h"
#include "nccl2/core/device_op.h"

namespace pycomms::c10d_backend {

using TensorList = c10::SmallVector<at::Tensor, 2>;

class TensorOp final : public DeviceOp {
 public:
  using DeviceOp::DeviceOp;

  // By the issuing thread, before the engine call.
  void keep(const at::Tensor& tensor) { tensors_.push_back(tensor); }
  template <typename Tensors>
  void keep_all(const Tensors& tensors) {
    tensors_.append(tensors.begin(), tensors.end());
  }

  // Gives the tensors back: the operation has passed on its device, or a stream that their memory belongs to is ordered
  // behind it. Any thread.
  void let_go() {
    if (is_on_device() && !let_go_.exchange(true, std::memory_order_acq_rel)) tensors_.clear();
  }
  void passed() override { let_go(); }

  // Of an operation on a device: the stream it was issued on, and the one that was current then.
  void set_streams(const c10::Stream& issued_on, const c10::Stream& issued_from) {
    issued_on_ = issued_on;
    issued_from_ = issued_from;
  }
  const c10::Stream& issued_on() const { return *issued_on_; }
  const c10::Stream& issued_from() const { return *issued_from_; }

  // Of a coalesced block: true until endCoalescing.
  bool is_open() const { return open_.load(std::memory_order_acquire); }
  void set_open(bool open) { open_.store(open, std::memory_order_release); }

  // Inspections of the data that came in, as inspect() says; the first error counts. Before the operation is issued.
  using Inspection = std::function<Error(uint64_t sequence)>;
  void inspect_with(Inspection inspection) { inspections_.push_back(std::move(inspection)); }
  Error inspect() override {
    Error first;
    for (const Inspection& inspection : std::exchange(inspections_, {})) {
      if (Error error = inspection(sequence()); error && !first) first = std::move(error);
    }
    if (first && reports_ != nullptr) reports_->add(first);
    return first;
  }
  // Of an operation on a device: who hears of that if nobody waits for it. May be null.
  void report_to(std::shared_ptr<ValueReports> reports) { reports_ = std::move(reports); }
  ValueReports* reports() const { return reports_.get(); }

  // Filled by the engine before a receive ends.
  hostccl::RecvStatus received{-1, 0, 0};

 private:
  c10::SmallVector<at::Tensor, 4> tensors_;
  std::atomic<bool> let_go_{false};
  std::optional<c10::Stream> issued_on_, issued_from_;
  std::atomic<bool> open_{false};
  std::vector<Inspection> inspections_;  // of the issuing thread, then of the one that ends the operation
  std::shared_ptr<ValueReports> reports_;
};

}  // namespace pycomms::c10d_backend
