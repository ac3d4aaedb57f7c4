// DeviceRuntime over hostccl's own streams. Any thread.
#pragma once

#include "nccl2/driver/device_runtime.h"

namespace pycomms {

class HostRuntime final : public DeviceRuntime {
 public:
  explicit HostRuntime(const Engine& engine) : host_(engine.host) {}

  Result<StreamHandle> create_stream(const char* name) override;
  void destroy_stream(StreamHandle stream) override { static_cast<void>(host_.stream_destroy(stream)); }
  EngineResult notify(StreamHandle stream, StreamCallback callback, void* arg, uint64_t* position) override {
    return host_.stream_notify(stream, callback, arg, position);
  }
  bool help(StreamHandle stream, uint64_t position) override { return host_.stream_help(stream, position) != 0; }
  bool can_run_inline() const override { return true; }

 private:
  const HostcclApi& host_;
};

}  // namespace pycomms
