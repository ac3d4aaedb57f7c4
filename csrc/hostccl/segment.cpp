#include "hostccl/segment.h"

#include "base/futex.h"
#include "hostccl/failures.h"

namespace hostccl {

Segment::Segment(std::shared_ptr<pycomms::SharedMapping> mapping, Places places, int rank)
    : mapping_(std::move(mapping)),
      layout_(places.nranks()),
      places_(std::move(places)),
      rank_(rank),
      fault_(&layout_.fault(mapping_->data())) {
  for (int r = 0; r < nranks(); ++r) blocks_.push_back(&layout_.block(mapping_->data(), r));
}

void Segment::wake(Bell& bell) {
  bell.rung.fetch_add(1, std::memory_order_seq_cst);
  pycomms::futex_wake_all(bell.rung);
}

void Segment::fail(const Failure& failure) const {
  auto expected = static_cast<uint32_t>(FaultWord::kHealthy);
  if (!fault_->word.compare_exchange_strong(expected, static_cast<uint32_t>(FaultWord::kBeingWritten))) return;
  fault_->failure = failure;
  fault_->word.store(static_cast<uint32_t>(FaultWord::kPublished), std::memory_order_seq_cst);
  ring_all_here();
  if (remote_ != nullptr) remote_->failed();
}

Failure Segment::failure() const {
  // Writing the record takes a microsecond; a writer that died in the middle of it must not stop us.
  const auto deadline = pycomms::Deadline::after(20 * pycomms::kMillisecond);
  for (;;) {
    switch (static_cast<FaultWord>(fault_->word.load(std::memory_order_acquire))) {
      case FaultWord::kHealthy:
        return Failure{};
      case FaultWord::kPublished:
        return fault_->failure;
      case FaultWord::kBeingWritten:
        break;
    }
    if (deadline.passed()) {
      return make_failure(FailureKind::kPeerDead, rank_, "a member died while it reported a failure");
    }
    pycomms::cpu_relax();
  }
}

}  // namespace hostccl
