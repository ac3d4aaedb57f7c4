#include "nccl2/c10d/host_engine.h"

#include <c10/util/Exception.h>

#include "nccl2/c10d/python_hooks.h"
#include "nccl2/driver/host_runtime.h"

namespace pycomms::c10d_backend {
namespace {

const Engine& load(const std::string& path, const std::string& vector_width) {
  Result<const Engine*> engine = load_engine(path);
  TORCH_CHECK(engine.is_ok(), "pycomms: ", engine.status().message());
  TORCH_CHECK(engine.value()->is_host(), "pycomms: ", path, " is not libhostccl.so");
  if (!vector_width.empty()) {
    const EngineResult set = engine.value()->host.set_vector_width(vector_width.c_str());
    TORCH_CHECK_VALUE(set == nccl_abi::kSuccess,
                      "PYCOMMS_VECTOR_WIDTH: ", engine.value()->nccl.get_last_error(nullptr));
  }
  engine.value()->host.set_interrupt_hook([] { return interrupted() ? 1 : 0; });
  return *engine.value();
}

}  // namespace

HostEngine host_engine(const std::string& path, const std::string& vector_width) {
  static const Engine& engine = load(path, vector_width);
  static auto& runtime = *new HostRuntime(engine);  // streams may outlive static destruction
  return {engine, runtime};
}

}  // namespace pycomms::c10d_backend
