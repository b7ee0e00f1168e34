// SPDX-License-Identifier: Apache-2.0
#include "cudnn/objects.h"

#include <cstring>

#include "cuda/launch.h"
#include "cuda/results.h"

namespace fake_driver {

std::string& LastError() {
  static thread_local std::string text;
  return text;
}

int Misuse(const std::string& what, int status) {
  TvmIosStandInNote(("misuse: cudnn: " + what).c_str());
  LastError() = what;
  return status;
}

int CurrentDevice() {
  int device = -1;
  cuCtxGetDevice(&device);
  return device;
}

int Problem::Check() const {
  if (x == nullptr || w == nullptr || convolution == nullptr || y == nullptr) {
    return Misuse("a descriptor that is none");
  }
  const Windows& windows = convolution->windows;
  const bool same =
      x->type == w->type && x->type == y->type && x->format == w->format && x->format == y->format;
  if (!same || x->type < 0) return Misuse("types or formats that do not fit");
  if (x->size[0] != y->size[0] || w->size[0] != y->size[1] ||
      w->size[1] * windows.groups != x->size[1] || w->size[0] % windows.groups != 0) {
    return Misuse("channels that do not fit");
  }
  for (size_t axis = 0; axis < 2; ++axis) {
    const int window = (w->size[2 + axis] - 1) * windows.dilation[axis] + 1;
    const int room = x->size[2 + axis] + 2 * windows.padding[axis] - window;
    if (room < 0 || room / windows.stride[axis] + 1 != y->size[2 + axis]) {
      return Misuse("sizes that do not fit");
    }
  }
  return kOk;
}

bool Problem::Has(int algorithm) const {
  // One that only some problems have, so that there is something not to choose.
  if (algorithm == kGemm) return x->format == kNchw && convolution->windows.groups == 1;
  return algorithm == kImplicitGemm || algorithm == kImplicitPrecompGemm;
}

size_t Problem::Workspace(int algorithm) const {
  const size_t pixels = static_cast<size_t>(y->size[2]) * static_cast<size_t>(y->size[3]);
  if (algorithm == kImplicitPrecompGemm) return 4 * pixels;
  return algorithm == kGemm ? 16 * pixels : 0;
}

Use::Use(Object handle) : context_(All<Context>().Find(handle)) {
  if (context_ == nullptr) {
    status_ = Misuse("a handle that is none");
  } else if (context_->device != CurrentDevice()) {
    status_ = Misuse("a handle of another device");
  } else if (context_->busy.exchange(true)) {
    status_ = Misuse("a handle that another thread uses");
  } else {
    mine_ = true;
  }
}

namespace {

/*! \brief In the journal a convolution is one kernel, cudnn1_fma if it is algorithm 1 by FMA. */
std::string NameOf(int algorithm, int math) {
  static const std::map<int, std::string> names{
      {kDefault, "_default"}, {kTensorOp, "_tensor"}, {kConversion, "_conversion"}, {kFma, "_fma"}};
  return "cudnn" + std::to_string(algorithm) + names.at(math);
}

}  // namespace

int Run(Object handle, const Problem& problem, int algorithm, void* workspace, size_t bytes,
        const Operands& operands, float alpha2, bool relu) {
  constexpr int kNaN = 0xff;  // in every byte; nobody may count on what is in a workspace
  const size_t needed = problem.Workspace(algorithm);
  if (!problem.Has(algorithm)) return kUnsupported;
  if (needed > bytes) return Misuse("a workspace that is too small");
  if (operands.x == nullptr || operands.w == nullptr || operands.y == nullptr) {
    return Misuse("a tensor without memory");
  }
  Use use(handle);
  if (use.status() != kOk) return use.status();
  const auto compute = [=, x = *problem.x, w = *problem.w, y = *problem.y,
                        windows = problem.convolution->windows] {
    if (needed > 0) std::memset(workspace, kNaN, needed);
    Convolve(x, w, y, windows, operands, alpha2, relu);
    return kSuccess;
  };
  const std::string name = NameOf(algorithm, problem.convolution->math);
  const int launched = StandInLaunch(use.context().stream, name, compute);
  return launched == kSuccess ? kOk : kDriverFailed;
}

}  // namespace fake_driver
