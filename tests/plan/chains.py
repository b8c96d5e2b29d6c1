"""chains that tools/checkpoint_torch.py trains: two of linear layers, one of convolutions, a ResNet-50 of its blocks"""

import torch, torch.nn as nn


def linears(width, layers, batch):
    stages = [f for _ in range(layers) for f in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*stages, nn.Linear(width, 10)), {"input": torch.randn(batch, width)}


def mlp9():
    return linears(777, 4, 2048)


def mlp24():
    return linears(1024, 12, 4096)


def conv21():
    stages, c = [], 3
    for k, stride in ((16, 1), (16, 1), (32, 2), (32, 1), (64, 2), (64, 1)):
        stages += [nn.Conv2d(c, k, 3, stride, 1, bias=False), nn.BatchNorm2d(k), nn.ReLU()]
        c = k
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 10)), {
        "input": torch.randn(64, 3, 64, 64)
    }


def dropout():
    stages = [f for _ in range(8) for f in (nn.Linear(512, 512), nn.GELU(), nn.Dropout(0.3))]
    return nn.Sequential(*stages, nn.Linear(512, 4)), {"input": torch.randn(128, 512)}


def resnet50():
    import torchvision

    m = torchvision.models.resnet50()
    stages = [m.conv1, m.bn1, m.relu, m.maxpool, *m.layer1, *m.layer2, *m.layer3, *m.layer4]
    return nn.Sequential(*stages, m.avgpool, nn.Flatten(), m.fc), {"input": torch.randn(16, 3, 224, 224)}
