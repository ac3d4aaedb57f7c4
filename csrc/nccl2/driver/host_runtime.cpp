#include "nccl2/driver/host_runtime.h"

namespace pycomms {

Result<StreamHandle> HostRuntime::create_stream(const char* name) {
  StreamHandle stream = nullptr;
  const EngineResult result = host_.stream_create(&stream, name);
  if (result == nccl_abi::kSuccess) return stream;
  hostccl::Failure failure{};
  static_cast<void>(host_.last_failure(&failure));
  return Status(Code::kSystem, std::string("cannot create a host stream: ") + failure.text);
}

}  // namespace pycomms
