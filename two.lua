print(rille.ones({4}, {placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"}):sum():item())
