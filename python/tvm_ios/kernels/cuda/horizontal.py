def fuse(kernels, wiring, target):
    raise NotImplementedError
