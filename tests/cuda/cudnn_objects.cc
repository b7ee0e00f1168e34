// SPDX-License-Identifier: Apache-2.0
#include "cuda/cudnn_objects.h"

#include <algorithm>

#include "cuda/results.h"

namespace standin {

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

/*! \brief A workspace with a pattern in it, which nobody else may write meanwhile. */
class Workspace {
 public:
  Workspace(void* data, size_t bytes) : data_(static_cast<unsigned char*>(data)), bytes_(bytes) {
    static std::atomic<unsigned> calls{0};
    pattern_ = static_cast<unsigned char>(++calls);
    std::fill_n(data_, bytes_, pattern_);
  }
  bool IsIntact() const {
    return std::all_of(data_, data_ + bytes_, [&](unsigned char c) { return c == pattern_; });
  }

 private:
  unsigned char* data_;
  size_t bytes_;
  unsigned char pattern_;
};

/*! \brief For the journal a convolution is one kernel, cudnn1_fma if it is algorithm 1 by FMA. */
int Launch(int algorithm, int math, Handle stream) {
  static const std::map<int, std::string> names{
      {kDefault, "_default"}, {kTensorOp, "_tensor"}, {kConversion, "_conversion"}, {kFma, "_fma"}};
  Handle kernel = nullptr;
  const std::string name = "cudnn" + std::to_string(algorithm) + names.at(math);
  cuModuleGetFunction(&kernel, nullptr, name.c_str());
  LaunchConfig config{};
  config.stream = stream;
  return cuLaunchKernelEx(&config, kernel, nullptr, nullptr) == kSuccess ? kOk : kDriverFailed;
}

}  // namespace

int Run(Object handle, const Problem& problem, int algorithm, void* workspace, size_t bytes,
        const Operands& operands, float alpha2, bool relu) {
  if (!problem.Has(algorithm)) return kUnsupported;
  if (problem.Workspace(algorithm) > bytes) return Misuse("a workspace that is too small");
  if (operands.x == nullptr || operands.w == nullptr || operands.y == nullptr) {
    return Misuse("a tensor without memory");
  }
  Use use(handle);
  if (use.status() != kOk) return use.status();
  int capturing = 0;
  if (cuStreamIsCapturing(use.context().stream, &capturing) != kSuccess) return kDriverFailed;
  const int math = problem.convolution->math;
  if (const int failed = Launch(algorithm, math, use.context().stream)) return failed;
  if (capturing != 0) return kOk;
  const Workspace used(workspace, problem.Workspace(algorithm));
  Convolve(*problem.x, *problem.w, *problem.y, problem.convolution->windows, operands, alpha2,
           relu);
  return used.IsIntact() ? kOk : Misuse("a workspace that others use");
}

}  // namespace standin
