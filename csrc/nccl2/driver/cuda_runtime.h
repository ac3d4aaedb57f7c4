// One CUDA device: its events, with a pool of them, for making one costs microseconds. Streams are torch's.
// Any thread. Must not know: communicators, torch.
#pragma once

#include <mutex>
#include <vector>

#include "nccl2/driver/cuda_api.h"
#include "nccl2/driver/device_events.h"
#include "nccl2/driver/device_runtime.h"

namespace pycomms {

class CudaRuntime final : public DeviceRuntime, public DeviceEvents {
 public:
  CudaRuntime(const CudaApi& api, int device) : api_(api), device_(device) {}

  // --- DeviceRuntime: no streams of our own, nothing to help with
  Result<StreamHandle> create_stream(const char* name) override;
  void destroy_stream(StreamHandle) override {}
  EngineResult notify(StreamHandle, StreamCallback, void*, uint64_t*) override { return nccl_abi::kInvalidUsage; }
  bool help(StreamHandle, uint64_t) override { return false; }
  bool can_run_inline() const override { return false; }

  // --- DeviceEvents
  Result<EventHandle> record(StreamHandle stream, bool timed) override;
  Status wait(StreamHandle stream, EventHandle event) override;
  State query(EventHandle event, std::string* why) override;
  Result<float> elapsed_ms(EventHandle start, EventHandle end) override;
  void release(EventHandle event, bool timed, bool captured) override;
  bool is_capturing(StreamHandle stream) override;
  void allow_queries_during_capture() override;

 private:
  Result<EventHandle> make(bool timed);
  Status failed(const char* call, cuda_abi::Error error) const;

  const CudaApi& api_;
  const int device_;
  std::mutex mutex_;
  std::vector<EventHandle> idle_[2];  // guarded by mutex_; by `timed`
};

}  // namespace pycomms
