// An operation on a stream of a device: a mark before it, if it is timed, and one behind it. It is over when the latter has
// passed; who orders a stream behind it need not wait for that.
// Marks are set by the issuing thread before anybody else sees them. Any thread. Must not know: torch, communicators.
#pragma once

#include <utility>
#include <vector>

#include "nccl2/core/op_state.h"
#include "nccl2/core/sequel.h"
#include "nccl2/driver/device_events.h"

namespace pycomms {

class DeviceOp : public OpState {
 public:
  using OpState::OpState;
  ~DeviceOp() override;

  // False for an operation on the host.
  bool is_on_device() const { return events_ != nullptr; }
  StreamHandle stream() const { return stream_; }
  // Under graph capture nothing runs now: the graph owns what was issued, and this object stands for nothing in flight.
  bool is_captured() const { return captured_; }
  int64_t deadline_ns() const { return deadline_ns_; }

  // By the issuer, in this order, the engine's calls in between.
  Status begin_on(DeviceEvents& events, StreamHandle stream, bool timed, bool captured, int64_t deadline_ns);
  // What is played between the two; kept until it has been issued.
  void follow_with(std::shared_ptr<Sequel> sequel) { sequels_.push_back(std::move(sequel)); }
  std::vector<std::shared_ptr<Sequel>> take_sequels() { return std::exchange(sequels_, {}); }
  Status end_on_stream();

  bool is_capturing(StreamHandle stream) const { return events_->is_capturing(stream); }
  // Orders `stream` behind the operation.
  Status order(StreamHandle stream);
  DeviceEvents::State query(std::string* why) { return events_->query(end_, why); }
  // Called by whoever has seen the mark pass, before the operation ends.
  virtual void passed() {}
  // Milliseconds on the device; an error unless it was timed and has passed.
  Result<float> duration_ms() const;

 private:
  DeviceEvents* events_ = nullptr;
  StreamHandle stream_ = nullptr;
  EventHandle start_ = nullptr;
  EventHandle end_ = nullptr;
  bool timed_ = false;
  bool captured_ = false;
  int64_t deadline_ns_ = kForever;
  std::vector<std::shared_ptr<Sequel>> sequels_;  // of the issuing thread
};

}  // namespace pycomms
