"""small_networks -- networks of two to five nodes, one for each form of an operator that
exporters write and that models of the zoo lack.

A network is a line of nodes `output=Operator input ... attribute=value`, separated by `|`.
An input is a value, or a constant:

    w:6,4,3,3     random weights of these dims; `w` alone is the same constant again
    w:6,1*30      the same, 30 times as large
    #1,2          int64            .5,2 with a `~` in front: float32, `~.5` is a scalar
    -             no input

`a+b=Split ...` has two outputs, `-+b=LSTM ...` leaves the first one out.  Attributes are
ints, floats, lists of ints with a comma (`1,` has one), or words; `p=1` is pads of 1 at both
ends of both axes."""
import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, shape_inference

C, Y = "c=Conv x w:6,4,3,3 p=1 | ", " | y=Conv q v:4,6,3,3"
SMALL = "c=Conv x w:4,4,1,1 | "
LINE, CUBE, ROWS, BATCH = (1, 4, 12), (1, 4, 4, 6, 6), (3, 6), (2, 3, 6)
OUTPUTS = ("y",)


class Form:
    """A network: its line, opset, dims of x, outputs, other names for values and nodes."""

    def __init__(self, line, opset=13, x=(1, 4, 8, 8), outputs=OUTPUTS, names=None):
        self.line, self.opset, self.x = line, opset, x
        self.outputs, self.names = outputs, names or {}


FORMS = {
    # Pad
    "pad_zeros": Form(C + "q=Pad c #0,0,1,2,0,0,2,1" + Y),
    "pad_constant": Form(C + "r=Relu c | q=Pad r #0,0,1,2,0,0,2,1 ~.5" + Y, 17),
    "pad_crop": Form(C + "q=Pad c #0,0,-1,2,0,0,2,-1" + Y),
    "pad_reflect": Form(C + "q=Pad c #0,0,1,1,0,0,1,1 mode=reflect" + Y),
    "pad_edge": Form(C + "q=Pad c #0,0,1,1,0,0,1,1 mode=edge" + Y),
    "pad_axes": Form(C + "q=Pad c #1,2 - #-1," + Y, 18),
    "pad_attribute": Form(C + "q=Pad c pads=0,0,1,1,0,0,1,1" + Y, 9),
    "pad_channels": Form(C + "q=Pad c #0,1,0,0,0,2,0,0 | y=Conv q v:4,9,3,3"),
    # Resize
    "resize_floor": Form(C + "q=Resize c - ~1,1,2,2 mode=nearest nearest_mode=floor "
                         "coordinate_transformation_mode=asymmetric" + Y),
    "resize_nearest": Form(C + "q=Resize c - ~1,1,2,2 mode=nearest" + Y),
    "resize_ceil": Form(C + "q=Resize c - ~1,1,2,2 mode=nearest nearest_mode=ceil" + Y),
    "resize_linear": Form(C + "q=Resize c - ~1,1,2,2 mode=linear" + Y),
    "resize_corners": Form(C + "q=Resize c - ~1,1,2,2 mode=linear "
                           "coordinate_transformation_mode=align_corners" + Y),
    "resize_corners_fraction": Form(C + "q=Resize c - ~1,1,1.3,1.7 mode=linear "
                                    "coordinate_transformation_mode=align_corners" + Y),
    "resize_corners_nearest": Form(C + "q=Resize c - ~1,1,1.3,1.7 mode=nearest "
                                   "coordinate_transformation_mode=align_corners" + Y),
    "resize_pytorch": Form(C + "q=Resize c - ~1,1,2,2 mode=linear "
                           "coordinate_transformation_mode=pytorch_half_pixel" + Y),
    "resize_cubic": Form(C + "q=Resize c - ~1,1,2,2 mode=cubic" + Y),
    "resize_antialias": Form(C + "q=Resize c - ~1,1,.5,.5 mode=linear antialias=1" + Y, 18),
    "resize_sizes": Form(C + "q=Resize c - - #1,6,5,11 mode=linear" + Y),
    "resize_channels": Form(C + "q=Resize c - ~1,2,2,1 mode=nearest | y=Conv q v:4,12,3,3"),
    "resize_10": Form(C + "q=Resize c ~1,1,2,2 mode=nearest" + Y, 10),
    "resize_line": Form("c=Conv x w:6,4,3 | q=Resize c - ~1,1,2 mode=nearest nearest_mode=floor "
                        "coordinate_transformation_mode=asymmetric | y=Conv q v:3,6,1", x=LINE),
    "upsample": Form(C + "q=Upsample c ~1,1,2,2 mode=nearest" + Y, 9),
    # Convolutions
    "turned_output": Form(C + "d=ConvTranspose c v:6,5,3,3 b:5 strides=2,2 output_padding=1,1 p=1 "
                          "| y=Relu d"),
    "turned_groups": Form(C + "y=ConvTranspose c v:6,3,3,3 strides=2,2 group=2"),
    "turned_depthwise": Form(C + "q=ConvTranspose c u:6,1,2,2 strides=2,2 group=6" + Y),
    "turned_dilated": Form(C + "y=ConvTranspose c v:6,3,3,3 dilations=2,2"),
    "turned_shape": Form(C + "y=ConvTranspose c v:6,3,3,3 strides=2,2 output_shape=17,16"),
    "turned_upper": Form("c=Conv x w:6,4,3,3 auto_pad=SAME_LOWER | d=ConvTranspose c v:6,3,3,3 "
                         "strides=2,2 auto_pad=SAME_UPPER | y=LeakyRelu d alpha=0.2"),
    "turned_lower": Form(SMALL + "y=ConvTranspose c v:4,3,3,3 strides=2,2 "
                         "auto_pad=SAME_LOWER", 11),
    "turned_crop": Form(SMALL + "y=ConvTranspose c v:4,3,3,4 b:3 strides=3,2 pads=1,0,0,1", 11),
    "turned_line": Form("c=Conv x w:6,4,3 pads=1,1 | y=ConvTranspose c v:6,3,3 strides=2,", x=LINE),
    "line": Form("c=Conv x w:6,4,3 b:6 pads=1,1 | d=Relu c "
                 "| m=MaxPool d kernel_shape=2, strides=2, "
                 "| y=Conv m v:6,6,3 dilations=2,", x=LINE),
    "line_average": Form("c=Conv x w:6,4,3 b:6 pads=1,1 "
                         "| m=AveragePool c kernel_shape=2, strides=2, "
                         "| d=Conv m v:6,6,3 | y=GlobalAveragePool d", x=LINE),
    "cube": Form("c=Conv x w:6,4,3,3,3 b:6 pads=1,1,1,1,1,1 | d=Relu c | m=MaxPool d "
                 "kernel_shape=2,2,2 strides=2,2,2 | y=Conv m v:6,6,1,1,1", x=CUBE),
    "groups": Form("c=Conv x w:6,2,3,3 b:6 group=2 p=1 | r=Relu c | d=Conv r u:12,1,3,3 group=6 "
                   "pads=0,1,2,1 | y=Conv d v:6,4,1,1 group=3"),
    "dilated": Form("c=Conv x w:6,4,3,3 pads=2,2,2,2 dilations=2,2 | r=Relu c "
                    "| y=Conv r v:6,6,2,2 dilations=1,3 strides=1,2"),
    "same": Form("c=Conv x w:6,4,3,3 pads=0,1,2,0 strides=2,1 | r=Relu c | d=Conv r v:6,6,2,2 "
                 "auto_pad=SAME_LOWER strides=2,2 | y=Conv d u:3,6,2,2 auto_pad=VALID"),
    # Pools
    "average_counted": Form(C + "q=AveragePool c kernel_shape=3,3 p=1 count_include_pad=1" + Y),
    "average_upper": Form(C + "q=AveragePool c kernel_shape=3,3 strides=2,2 "
                          "auto_pad=SAME_UPPER" + Y),
    "average_lower": Form(C + "q=AveragePool c kernel_shape=2,3 auto_pad=SAME_LOWER" + Y),
    "average_ceil": Form(C + "q=AveragePool c kernel_shape=3,3 strides=2,2 ceil_mode=1" + Y),
    "max_ceil": Form(C + "q=MaxPool c kernel_shape=3,3 strides=2,2 ceil_mode=1" + Y),
    "average_ceil_pads": Form(C + "q=AveragePool c kernel_shape=3,2 strides=2,2 ceil_mode=1 "
                              "pads=1,0,1,1" + Y),
    "average_ceil_counted": Form(C + "q=AveragePool c kernel_shape=3,3 strides=2,2 ceil_mode=1 p=1 "
                                 "count_include_pad=1" + Y, 19),
    "max_ceil_pads": Form(C + "q=MaxPool c kernel_shape=3,2 strides=3,2 ceil_mode=1 "
                          "pads=1,0,1,1" + Y),
    "max_ceil_apart": Form("c=Conv x w:6,4,3 pads=1,1 | y=MaxPool c kernel_shape=1, strides=3, "
                           "ceil_mode=1", x=(1, 4, 11)),
    "max_dilated": Form(C + "q=MaxPool c kernel_shape=2,2 dilations=2,2" + Y),
    "max_indices": Form(C + "q+i=MaxPool c kernel_shape=2,2" + Y),
    "max_lower": Form(C + "q=MaxPool c kernel_shape=2,3 auto_pad=SAME_LOWER" + Y),
    "global_max": Form(C + "m=GlobalMaxPool c | y=Conv m v:4,6,1,1"),
    # Functions of one value
    "clip_low": Form(C + "q=Clip c ~-.3" + Y),
    "clip_high": Form(C + "q=Clip c - ~.3" + Y),
    "clip_attribute": Form(C + "q=Clip c min=-0.2 max=0.7" + Y, 9),
    "clip_nothing": Form(C + "q=Clip c" + Y),
    "clip_point": Form(SMALL + "d=Clip c ~.5 ~.5 | y=Conv d w"),
    "clip_crossed": Form(SMALL + "d=Clip c ~1 ~-1 | y=Conv d w"),
    "clip_below": Form(SMALL + "d=Clip c ~-2 ~-.5 | y=Conv d w"),
    "clamps": Form("a=Relu x | b=Clip a ~0 ~.5 | d=Relu b | c=Conv d w:4,4,1,1 | e=Relu c "
                   "| y=Clip e ~0 ~.5"),
    "slope_above_1": Form(SMALL + "d=LeakyRelu c alpha=3.0 | y=Conv d w"),
    "slope_below_0": Form(SMALL + "d=LeakyRelu c alpha=-0.5 | y=Conv d w"),
    "slope_0": Form(SMALL + "d=LeakyRelu c alpha=0.0 | y=Conv d w"),
    "slopes": Form(C + "q=PRelu c s:6,1,1" + Y),
    "slopes_of_width": Form(C + "q=PRelu c s:8" + Y),
    "softmax_channels": Form(C + "q=Softmax c axis=1" + Y),
    "softmax_batch": Form(SMALL + "q=Softmax c axis=0 | y=Conv q v:3,4,1,1"),
    "softmax_one": Form("c=MatMul x w:6,10 | d=Softmax c axis=1 | y=MatMul d v:10,4", x=(2, 1, 6)),
    "softmax_height": Form(C + "q=Softmax c axis=2" + Y),
    "softmax_last": Form("c=MatMul x w:6,10 | d=Softmax c axis=-1 | y=MatMul d v:10,4", x=ROWS),
    "log_softmax": Form("c=MatMul x w:6,10 | y=LogSoftmax c axis=-1", x=ROWS),
    # Products
    "gemm_factors": Form("c=Gemm x w:6,10 b:10 transA=1 alpha=0.5 beta=2.0 | d=Relu c "
                         "| y=Gemm d v:5,10 transB=1", x=(6, 3)),
    "gemm_rows_of_bias": Form("c=Gemm x w:10,6 b:3,10 transB=1 | y=Gemm c v:10,5 d:1,5", x=ROWS),
    "gemm_bias_of_rows": Form("y=Gemm x w:10,6 b:3,1 transB=1", x=ROWS),
    "gemm_scalar_bias": Form("c=Gemm x w:10,6 ~.3 transB=1 | y=Gemm c v:10,5 b:1", x=ROWS),
    "matmul_bias": Form("c=MatMul x w:6,10 | d=Add b:10 c | e=Relu d | y=MatMul e v:10,5", x=BATCH),
    "matmul_batch": Form("c=MatMul x w:2,6,10 | y=MatMul c v:10,5", x=BATCH),
    "matmul_broadcast": Form("c=MatMul x w:1,4,6,10 | y=MatMul c v:2,1,10,5", x=(2, 1, 3, 6)),
    "matmul_vector": Form("c=MatMul x w:6,5 | y=MatMul c v:5", x=ROWS),
    "matmul_of_vector": Form("c=MatMul x w:6,5 | y=Relu c", x=(6,)),
    "matmul_left": Form("c=MatMul w:5,3 x | y=MatMul c v:6,5", x=ROWS),
    "attention": Form("c=MatMul x w:6,10 | t=Transpose c perm=0,2,1 | s=MatMul c t "
                      "| p=Softmax s axis=-1 | y=MatMul p c", x=(1, 3, 6)),
    # Elementwise
    "broadcasts": Form(C + "d=Add c k:8 | e=Mul d l:6,1,8 | f=Add m:1,1,1,1 e | y=Sub f ~.3"),
    "itself": Form(C + "d=Add c c | q=Mul d d" + Y),
    "one_operand": Form(SMALL + "d=Max c | e=Sum d | f=Concat e axis=1 | y=Conv f w"),
    "three_operands": Form(SMALL + "y=Sum c x c"),
    "extremes_of_constants": Form("c=MatMul x w:6,10 | d=Relu c | e=Max k:1,1 d | y=Max d e", x=ROWS),
    # Moves
    "split_uneven": Form(C + "a+b+d=Split c #1,2,3 axis=1 | e=Conv a u:2,1,1,1 | f=Relu b "
                         "| q=Concat e f d axis=1 | y=Conv q v:3,7,1,1"),
    "split_even": Form(C + "a+b=Split c axis=1 | s=Sigmoid b | q=Mul a s | y=Conv q v:3,3,1,1"),
    "split_attribute": Form(C + "a+b=Split c axis=-1 split=3,5 | e=Conv a v:3,6,1,1 | f=Conv b v "
                            "| y=Concat e f axis=3", 11),
    "split_number": Form(C + "a+b+d=Split c axis=1 num_outputs=3 | e=Add a b | f=Sub e d "
                         "| y=Conv f v:3,2,1,1", 18),
    "slice_steps": Form(C + "q=Slice c #1,0 #100,8 #2,3 #2,3 | y=Conv q v:3,6,1,1"),
    "slice_backwards": Form(C + "q=Slice c #-1, #-1000, #3, #-1, | y=Conv q v:3,6,1,1"),
    "slice_attribute": Form(C + "q=Slice c starts=1,-6 ends=3,-1 axes=1,2 | y=Conv q v:3,2,1,1", 9),
    "focus": Form("a=Slice x #0,0 #8,8 #2,3 #2,2 | b=Slice x #1,0 #8,8 #2,3 #2,2 "
                  "| q=Concat a b axis=1 | y=Conv q v:3,8,1,1"),
    "concat_constant": Form("a=Conv x w:2,4,3,3 p=1 | b=Conv x v:2,4,3,3*30 p=1 "
                            "| c=Concat a b k:1,2,8,8 axis=1 | y=Relu c"),
    "concat_itself": Form("a=Conv x w:2,4,3,3 p=1 | c=Concat a a axis=-1 | y=Relu c"),
    "concat_batch": Form(SMALL + "d=Conv x v:4,4,1,1 | e=Concat c d axis=0 | y=Relu e"),
    "flatten_all": Form(SMALL + "d=Flatten c axis=0 | y=MatMul d v:256,5"),
    "blocks": Form("c=Conv x w:8,4,1,1 | d=DepthToSpace c blocksize=2 mode=CRD "
                   "| e=Conv d v:3,2,1,1 | y=SpaceToDepth e blocksize=2"),
    "shuffle": Form("c=Conv x w:8,4,1,1 | d=Reshape c #1,2,4,8,8 | e=Transpose d perm=0,2,1,3,4 "
                    "| f=Reshape e #1,-1,8,8 | y=Conv f v:3,8,1,1"),
    "channels_last": Form("t=Transpose x perm=0,3,1,2 | c=Conv t w:6,4,3,3 "
                          "| y=Transpose c perm=0,2,3,1", x=(1, 8, 8, 4)),
    "gather": Form(C + "q=Gather c #5,0,-1,2 axis=1 | y=Conv q v:3,4,1,1"),
    "tile": Form(SMALL + "d=Tile c #1,2,1,3 | y=Conv d v:2,8,1,1"),
    # Reductions
    "mean_channels": Form(C + "m=ReduceMean c axes=1, keepdims=1 | y=Relu m"),
    "mean_rows": Form(C + "m=ReduceMean c #2,3 keepdims=1 | y=Conv m v:3,6,1,1", 18),
    "mean_nothing": Form(C + "q=ReduceMean c keepdims=1 noop_with_empty_axes=1" + Y, 18),
    "mean_all": Form(C + "y=ReduceMean c keepdims=0"),
    # What OpenVINO's plugin computes otherwise on codes
    "max_of_input": Form("g=ReduceMax x axes=-1, | y=Conv g w:6,4,1,1 b:6", 17),
    "min_of_tanh": Form("t=Tanh x | g=ReduceMin t axes=2,3 keepdims=1 | y=Conv g w:6,4,1,1", 17),
    "max_beside_readers": Form("g=GlobalMaxPool x | t=Pad x #0,0,1,1,0,0,1,1 | a=Conv g w:6,4,1,1 "
                               "| b=Conv t v:6,4,1,1 | y=Add a b"),
    "max_flattened": Form("g=GlobalMaxPool x | f=Flatten g | y=Gemm f w:4,6"),
    "max_of_max": Form("g=ReduceMax x axes=-1, | h=ReduceMax g axes=-2, | y=Conv h w:6,4,1,1", 17),
    "max_tanh": Form("g=ReduceMax x axes=-1, | t=Tanh g | y=Conv t w:6,4,1,1", 17),
    "max_joined": Form("a=ReduceMax x axes=1, | b=ReduceMean x axes=1, | k=Concat a b axis=1 "
                       "| y=Conv k w:1,2,3,3 p=1", 17),
    "max_of_codes_sigmoid": Form("c=Conv x v:6,4,1,1 | r=Relu c | a=GlobalMaxPool r | z=Sigmoid a "
                                 "| y=Conv z w:6,6,1,1"),
    "pool_clip": Form("c=Conv x w:3,4,3,3 p=1 | s=MaxPool c kernel_shape=2,2 | r=Clip s ~0 ~1.5 "
                      "| y=Conv r u:3,3,1,1"),
    "pool_clip_high": Form("c=Conv x w:3,4,3,3 p=1 | s=MaxPool c kernel_shape=2,2 | y=Clip s - ~.4"),
    "reshape_clip_band": Form("c=Conv x w:3,4,3,3 p=1 | s=Reshape c #0,3,64,1 | r=Clip s ~-.3 ~.7 "
                              "| y=Conv r u:3,3,1,1"),
    "pad_one_axis": Form("c=Conv x w:3,4,3,3 | q=Pad c #0,0,0,1,0,0,0,0 ~.5 | y=Conv q u:2,3,1,1"),
    "pad_one_axis_below": Form("c=Conv x w:3,4,3,3 | q=Pad c #0,0,0,0,0,0,2,0 ~-.5 "
                               "| y=Conv q u:2,3,1,1"),
    "pad_batch": Form("c=Conv x w:3,4,3,3 | q=Pad c #1,0,0,0,1,0,0,0 | y=Conv q u:2,3,1,1"),
    "pad_one_channel": Form("c=Conv x w:1,4,3,3 | q=Pad c #0,1,0,0,0,0,0,0 "
                            "| y=Conv q u:2,2,1,1"),
    "clip_one_element": Form("c=Conv x w:1,4,8,8 | s=Reshape c #1,1 | r=Clip s ~-.3 ~.7 "
                             "| y=MatMul r u:1,3"),
    "clip_above_one_element": Form("c=Conv x w:1,4,8,8 | s=Flatten c | r=Clip s ~.1 ~.7 "
                                   "| y=MatMul r u:1,3"),
    "rows_chained": Form("c=MatMul x w:6,10 | r=Relu c | y=MatMul r v:10,5", x=(4, 6)),
    "rows_chained_softmax": Form("c=Gemm x w:6,10 b:10 | r=Softmax c axis=-1 | d=Add r b "
                                 "| e=MatMul d v:10,5 | y=Gemm e u:5,7 k:7", x=(6, 6)),
    "rows_chained_moved": Form("c=MatMul x w:6,10 | t=Transpose c perm=1,0 "
                               "| u=Transpose t perm=1,0 | f=Reshape u #2,4,5 "
                               "| g=Reshape f #4,10 | y=MatMul g v:10,5", x=(4, 6)),
    "dilation_of_one_element": Form("y=Conv x w:3,1,1,1 b:3 dilations=1,2 strides=1,2 "
                                    "pads=2,1,2,2", x=(3, 1, 1, 1)),
    "max_ceil_dilated": Form(C + "q=MaxPool c kernel_shape=2,3 strides=3,2 ceil_mode=1 "
                             "pads=1,0,0,1" + Y),
    "stride_of_one_element": Form("c=Conv x w:6,4,1,1 b:6 strides=2,2 p=1 | r=Relu c "
                                  "| y=Conv r v:3,6,1,1 strides=2,2"),
    "stride_behind_pad": Form("c=Conv x w:4,4,3,3 p=1 | r=Relu c | q=Pad r #0,0,1,1,0,0,1,1 "
                              "| y=Conv q v:6,4,1,1 strides=2,2"),
    "stride_of_one_in_line": Form("c=Conv x w:6,4,3 | s=Sigmoid c | y=Conv s v:3,6,1 strides=2, "
                                  "pads=1,0", x=LINE),
    "stride_of_one_in_cube": Form("c=Conv x w:6,4,1,1,1 pads=1,1,1,1,1,1 "
                                  "| y=Conv c v:3,6,1,1,1 strides=2,1,3", x=CUBE),
    "turned_far": Form("y=ConvTranspose x w:4,3,1,1 b:3 strides=2,2"),
    "turned_far_dilated": Form("y=ConvTranspose x w:4,3,3,3 strides=2,2 dilations=2,2"),
    "turned_thirds": Form("d=ConvTranspose x w:4,3,4,4 b:3 strides=3,3 | y=Conv d v:2,3,2,2"),
    "turned_quarters": Form("y=ConvTranspose x w:4,3,5,5 strides=4,4"),
    "turned_padded": Form("y=ConvTranspose x w:4,3,1,1 p=1"),
    "turned_narrow": Form("y=ConvTranspose x w:4,2,4,4 strides=2,2 pads=1,1,1,0", x=(1, 4, 9, 1)),
    "groups_of_one_channel": Form("d=Conv x w:8,1,1,3 group=4 strides=1,3 | y=Conv d v:2,8,3,1",
                                  x=(1, 4, 9, 5)),
    "groups_padded": Form("y=Conv x w:12,1,3,3 group=4 strides=1,2 dilations=2,1 p=1",
                          x=(1, 4, 9, 2)),
    "sum_of_product": Form("c=MatMul x w:4,2 | y=ReduceSum c #1, keepdims=0", x=(2, 6, 4)),
    "sum_of_sigmoid": Form("d=MatMul x w:4,2 | c=Sigmoid d | y=ReduceSum c #1,2 keepdims=1",
                           x=(3, 5, 4)),
    **{f"product_{op.lower()}": Form(f"a=MatMul x w:4,4 | t=Transpose a perm=0,2,1 "
                                     f"| p=MatMul a t | y={op} p b:1,5,1", x=(1, 5, 4))
       for op in ("Add", "Mul", "Sub", "Div")},
    "product_scaled_mul": Form("a=MatMul x w:4,4 | t=Transpose a perm=0,2,1 | p=MatMul a t "
                               "| m=Mul p ~.26 | y=Mul m b:5,1", x=(1, 5, 4)),
    "product_scaled_add": Form("a=MatMul x w:4,4 | t=Transpose a perm=0,2,1 | p=MatMul a t "
                               "| m=Mul p ~.26 | y=Add m b:1,5,1", x=(1, 5, 4)),
    "concat_in_front": Form("k=Concat x u:1,2,8,8 axis=1 | y=Conv k w:6,6,1,1"),
    # What LiteRT's kernels compute by layout, grid or size
    "mean_of_input": Form("g=GlobalAveragePool x | y=Conv g v:6,4,1,1"),
    "mean_of_places": Form("y=ReduceMean x axes=2,3 keepdims=1"),
    "mean_of_first_axes": Form("y=ReduceMean x axes=1,2 keepdims=1"),
    "mean_of_nothing_else": Form(C + "r=Relu c | y=ReduceMean r axes=1,2 keepdims=1"),
    "matmul_tanh": Form("t=Tanh x | u=Transpose t perm=0,2,1 | y=MatMul x u", x=(4, 5, 7)),
    "matmul_tanh_broadcast": Form("t=Tanh x | a=Slice t #0, #1, #0, | u=Transpose a perm=0,2,1 "
                                  "| y=MatMul x u", x=(4, 5, 7)),
    "clip_of_input": Form("q=Clip x - ~.37 | y=Conv q v:6,4,1,1"),
    "clips_of_input": Form("q=Clip x ~-.7 ~1.1 | r=Clip x ~.2 ~1.3 | s=Clip x ~-1 ~1 "
                           "| t=Clip x ~0 ~6 | a=Concat q r s t axis=1 | y=Conv a v:6,16,1,1"),
    "clip_beside": Form(C + "q=Clip c ~-.3 ~.4 | d=Conv c v:3,6,1,1 | e=Conv q u:3,6,1,1 "
                        "| y=Add d e"),
    "turned_gaps": Form("d=ConvTranspose x w:4,3,2,2 b:3 strides=3,3 | y=Relu d"),
    "turned_gaps_same": Form("y=ConvTranspose x w:4,3,2,2 b:3 strides=3,3 pads=0,0,1,0",
                             x=(1, 4, 20, 20)),
    # Names, constants and outputs
    "names": Form("c=Conv x w:4,4,3,3 p=1 | r=Relu c | y=Conv r v:4,4,3,3 b:4 p=1",
                  names={"x": "in put", "w": "w/e:0", "c": "a.b c", "r": "é", "y": "out/put:0",
                         "v": "w 2.x", "Conv_c": "no de/1", "Conv_y": "c'o\"nv"}),
    "names_of_ours": Form("c=Conv x w:4,4,3,3 p=1 | r=Relu c | y=Conv r v:4,4,3,3 p=1",
                          names={"c": "x_quantized", "r": "x_scale", "v": "x_zero_point",
                                 "Conv_c": "x_QuantizeLinear"}),
    "shared_weights": Form("c=Conv x w:4,4,3,3 p=1 | r=Relu c | d=Conv r w p=1 | y=Conv d w p=1"),
    "shared_bias": Form("c=Conv x w:4,4,3,3 b:4 p=1 | r=Relu c | d=Conv r v:4,4,3,3 b p=1 "
                        "| e=Conv x u:4,4,3,3 b p=1 | y=Add d e"),
    "inner_outputs": Form("c=Conv x w:4,4,3,3 p=1 | r=Relu c | y=Conv r v:4,4,3,3 p=1",
                          outputs=("c", "r", "y")),
    "constant_output": Form("y=Conv x w:4,4,1,1 | z=Identity k:2,3", outputs=("y", "z")),
    "lstm_state": Form("-+h=LSTM x w:1,32,12 r:1,32,8 b:1,64 hidden_size=8 | q=Squeeze h #0, "
                       "| y=MatMul q v:8,5", x=(6, 1, 12)),
    "lstm_cell": Form("-+h+c=LSTM x w:1,32,12 r:1,32,8 hidden_size=8 | q=Add h c "
                      "| y=MatMul q v:8,5", x=(6, 1, 12)),
    "gru_state": Form("-+h=GRU x w:1,24,12 r:1,24,8 b:1,48 hidden_size=8 linear_before_reset=1 "
                      "| y=MatMul h v:8,5", x=(6, 2, 12)),
    "copies": Form("y=Conv x w:4,4,3,3 p=1 | z=Identity x | u=Identity y",
                   outputs=("z", "y", "u")),
}


class Builder:
    """The ONNX graph of a form, and its constants."""

    def __init__(self, form, seed):
        self.form, self.random = form, np.random.RandomState(seed)
        self.constants, self.nodes = {}, []

    def named(self, name):
        return self.form.names.get(name, name)

    def constant(self, name, value):
        self.constants[self.named(name)] = value
        return self.named(name)

    def operand(self, word):
        if word == "-":
            return ""
        if word[0] in "#~":
            read = [(int if word[0] == "#" else float)(v) for v in word[1:].split(",") if v]
            value = np.array(read, np.int64 if word[0] == "#" else np.float32)
            scalar = word[0] == "~" and "," not in word
            return self.constant(f"k{len(self.constants)}", value[0] if scalar else value)
        name, _, dims = word.partition(":")
        if dims:
            dims, _, factor = dims.partition("*")
            size = [int(d) for d in dims.split(",")]
            value = self.random.normal(0, 0.4, size) * float(factor or 1)
            return self.constant(name, value.astype(np.float32))
        return self.named(name)

    @staticmethod
    def attribute(name, word):
        if name == "p":
            return "pads", [1] * 4
        if "," in word:
            return name, [int(v) for v in word.split(",") if v]
        for kind in (int, float):
            try:
                return name, kind(word)
            except ValueError:
                pass
        return name, word

    def node(self, text):
        made, words = text.strip().split("=", 1)
        operator, *words = words.split()
        attributes = dict(self.attribute(*w.split("=")) for w in words if "=" in w)
        inputs = [self.operand(w) for w in words if "=" not in w]
        outputs = ["" if o == "-" else self.named(o) for o in made.split("+")]
        first = next(o for o in made.split("+") if o != "-")
        name = self.named(f"{operator}_{first}")
        self.nodes.append(helper.make_node(operator, inputs, outputs, name, **attributes))

    def model(self, name):
        for text in self.form.line.split("|"):
            self.node(text)
        about = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes, name, [about(self.named("x"), TensorProto.FLOAT, self.form.x)],
            [about(self.named(y), TensorProto.FLOAT, None) for y in self.form.outputs],
            [numpy_helper.from_array(np.asarray(v), n) for n, v in self.constants.items()])
        model = helper.make_model(graph, ir_version=8,
                                  opset_imports=[helper.make_opsetid("", self.form.opset)])
        for ours, inferred in zip(graph.output, shape_inference.infer_shapes(model).graph.output):
            ours.CopyFrom(inferred)
        model.graph.CopyFrom(graph)
        return model


def build(name, samples=4):
    """(model, samples [n, ...]) of a network of the table; the same in every run."""
    seed = sum(map(ord, name)) * 7
    model = Builder(FORMS[name], seed).model(name)
    checker.check_model(model)
    x = np.random.RandomState(seed + 1).normal(0, 1, (samples, *FORMS[name].x))
    return model, x.astype(np.float32)
