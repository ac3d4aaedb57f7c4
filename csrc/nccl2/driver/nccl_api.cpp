#include "nccl2/driver/nccl_api.h"

#include <dlfcn.h>

#include <memory>

namespace pycomms {
namespace {

template <typename Function>
void look_up(void* library, const char* symbol, Function& member) {
  member = reinterpret_cast<Function>(dlsym(library, symbol));
}

std::string first_missing(const NcclApi& api) {
#define PYCOMMS_CHECK(member, symbol, result, parameters) \
  if (api.member == nullptr) return #symbol;
  PYCOMMS_NCCL_FUNCTIONS(PYCOMMS_CHECK)
#undef PYCOMMS_CHECK
  return {};
}

}  // namespace

Result<const Engine*> load_engine(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Status(Code::kSystem, "cannot load the engine: " + std::string(dlerror()));

  auto engine = std::make_unique<Engine>();
  engine->path = path;
#define PYCOMMS_LOOK_UP(member, symbol, result, parameters) look_up(library, #symbol, engine->nccl.member);
  PYCOMMS_NCCL_FUNCTIONS(PYCOMMS_LOOK_UP)
#undef PYCOMMS_LOOK_UP
#define PYCOMMS_LOOK_UP(member, symbol, result, parameters) look_up(library, #symbol, engine->host.member);
  PYCOMMS_HOSTCCL_FUNCTIONS(PYCOMMS_LOOK_UP)
#undef PYCOMMS_LOOK_UP

  if (const std::string missing = first_missing(engine->nccl); !missing.empty()) {
    return Status(Code::kSystem, path + " does not export " + missing);
  }
  if (engine->nccl.get_version(&engine->version) != nccl_abi::kSuccess) {
    return Status(Code::kSystem, path + " does not tell its version");
  }
  return engine.release();
}

}  // namespace pycomms
